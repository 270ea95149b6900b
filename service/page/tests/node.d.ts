// Of node, which runs the tests; its types are not installed.
declare module "node:assert/strict";
declare module "node:test";
