// Renews package-lock.json, without indentation and addresses and, like the locks of Python, only for Linux.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";

const LOCK = new URL("package-lock.json", import.meta.url);

const { status } = spawnSync("npm", ["install", "--package-lock-only", "--no-audit", "--no-fund"], {
  stdio: "inherit",
});
if (status !== 0) process.exit(1);
const lock = JSON.parse(readFileSync(LOCK, "utf8"));
const isNeeded = ({ os = ["linux"], cpu = ["x64"], libc = ["glibc"] }) =>
  os.includes("linux") && /^(x64|arm64)$/.test(cpu[0]) && libc.includes("glibc");
const others = Object.keys(lock.packages).filter((path) => !isNeeded(lock.packages[path]));
for (const path of others) delete lock.packages[path];
for (const { optionalDependencies = {} } of Object.values(lock.packages))
  for (const path of others) delete optionalDependencies[path.replace("node_modules/", "")];
for (const entry of Object.values(lock.packages)) delete entry.funding;
writeFileSync(LOCK, `${JSON.stringify(lock, null, 1).replace(/^ +/gm, "")}\n`);
