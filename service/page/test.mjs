// Runs tests/*.test.ts with node's test runner: they test the page's logic and texts without a browser.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const folder = fileURLToPath(new URL("tests/", import.meta.url));
const out = mkdtempSync(join(tmpdir(), "page-tests-"));
try {
  const tests = readdirSync(folder).filter((name) => name.endsWith(".test.ts"));
  await build({
    entryPoints: tests.map((name) => join(folder, name)),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    target: "es2022",
  });
  const built = tests.map((name) => join(out, name.replace(/ts$/, "mjs")));
  process.exitCode = spawnSync(process.execPath, ["--test", ...built], { stdio: "inherit" }).status ?? 1;
} finally {
  rmSync(out, { recursive: true, force: true });
}
