// Renews package-lock.json, without indents and without programs for systems that the page is not built on, which were
// most of it in a checkout whose size is bounded.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const SYSTEMS = ["linux", "darwin"];
const PROCESSORS = ["x64", "arm64"];
const LOCK = new URL("package-lock.json", import.meta.url);

const { status } = spawnSync("npm", ["install", "--package-lock-only", "--no-audit", "--no-fund"], {
  stdio: "inherit",
});
if (status !== 0) process.exit(1);
const lock = JSON.parse(readFileSync(LOCK, "utf8"));
const isElsewhere = ({ os, cpu }) => os && !(SYSTEMS.includes(os[0]) && PROCESSORS.includes(cpu[0]));
const elsewhere = new Set(Object.keys(lock.packages).filter((path) => isElsewhere(lock.packages[path])));
for (const path of elsewhere) delete lock.packages[path];
for (const { optionalDependencies = {} } of Object.values(lock.packages))
  for (const name of Object.keys(optionalDependencies))
    if (elsewhere.has(`node_modules/${name}`)) delete optionalDependencies[name];
writeFileSync(LOCK, `${JSON.stringify(lock, null, 1).replace(/^ +/gm, "")}\n`);
