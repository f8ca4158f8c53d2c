// Compiles src to dist, with the compiler and the libraries that deploy/npm/install.sh
// installed. npm pack runs it.
import { spawnSync } from "node:child_process";
import { existsSync, rmSync, symlinkSync } from "node:fs";

process.chdir(import.meta.dirname ?? new URL(".", import.meta.url).pathname);
if (!existsSync("node_modules")) {
  rmSync("node_modules", { force: true }); // a link to nowhere
  symlinkSync("../../../.bin/npm/node_modules", "node_modules");
}
rmSync("dist", { recursive: true, force: true });
const { status } = spawnSync(process.execPath, ["node_modules/typescript/lib/tsc.js", ...process.argv.slice(2)], {
  stdio: "inherit",
});
process.exit(status ?? 1);
