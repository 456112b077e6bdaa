import { rmSync, statSync } from "node:fs";
import { join, relative } from "node:path";

import { buildExecutable } from "./executable.ts";
import { buildLibrary } from "./library.ts";
import { ROOT, hostPlatform, requirePinnedNode } from "./manifest.ts";

/**
 * Builds `dist/postbackd`, one executable for the platform this runs on. Beside it come the modules that other programs
 * import, which run anywhere.
 */

const DIST = join(ROOT, "dist");

requirePinnedNode();
rmSync(join(DIST, ".build"), { recursive: true, force: true });
await buildLibrary(DIST);
const platform = hostPlatform();
const output = join(DIST, "postbackd");
await buildExecutable({ platform, node: process.execPath, output });
const megabytes = (statSync(output).size / 1e6).toFixed(0);
process.stdout.write(`${relative(ROOT, output)}: ${megabytes} MB, ${platform}\n`);
