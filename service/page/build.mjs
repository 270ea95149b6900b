// Builds the page into service/web. The result is committed, so that users do not need node.
// The first line of page.js has a digest of its sources, without src/openapi.ts, which is generated for each build.
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { build } from "esbuild";
import { writeTypes } from "./types.mjs";

const out = new URL("../web/", import.meta.url);
const here = (name) => new URL(name, import.meta.url);

writeTypes(here("../../docs/openapi.json"), here("src/openapi.ts"));
rmSync(out, { recursive: true, force: true });
mkdirSync(out);
for (const name of ["index.html", "icon.svg"]) copyFileSync(here(`src/${name}`), new URL(name, out));

const digest = createHash("sha256");
for (const name of readdirSync(here("src")).sort()) {
  if (name === "openapi.ts") continue; // only types
  digest.update(`${name}\n`).update(readFileSync(here(`src/${name}`)));
}
await build({
  entryPoints: [here("src/page.ts").pathname, here("src/page.css").pathname],
  outdir: out.pathname,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "utf8",
  banner: { js: `// built by make page from ${digest.digest("hex")}` },
});
