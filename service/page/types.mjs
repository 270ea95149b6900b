// Generates TypeScript types of requests and answers from the OpenAPI document.
import { readFileSync, writeFileSync } from "node:fs";

export function writeTypes(source, target) {
  const { schemas } = JSON.parse(readFileSync(source, "utf8")).components;
  const names = Object.keys(schemas).sort();
  const written = names.map((name) => `export type ${name} = ${typeOf(schemas[name], "")};\n`);
  writeFileSync(target, `// Written by types.mjs from docs/openapi.json.\n\n${written.join("\n")}`);
}

function typeOf(schema, indent) {
  if (schema.$ref) return schema.$ref.split("/").at(-1);
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const choices = schema.anyOf ?? schema.oneOf;
  if (choices) return [...new Set(choices.map((one) => typeOf(one, indent)))].join(" | ");
  switch (schema.type) {
    case "null":
      return "null";
    case "string":
      return "string";
    case "boolean":
      return "boolean";
    case "integer":
    case "number":
      return "number";
    case "array":
      return schema.prefixItems
        ? `[${schema.prefixItems.map((one) => typeOf(one, indent)).join(", ")}]`
        : `Array<${typeOf(schema.items ?? {}, indent)}>`;
    case "object":
      return objectType(schema, indent);
  }
  return "unknown";
}

function objectType(schema, indent) {
  if (!schema.properties) {
    const values = schema.additionalProperties;
    return `Record<string, ${values && values !== true ? typeOf(values, indent) : "unknown"}>`;
  }
  const required = new Set(schema.required ?? []);
  const inner = `${indent}  `;
  const lines = Object.entries(schema.properties).map(
    ([name, field]) => `${inner}${name}${required.has(name) ? "" : "?"}: ${typeOf(field, inner)};`,
  );
  return `{\n${lines.join("\n")}\n${indent}}`;
}
