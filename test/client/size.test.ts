import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

const BYTES_MAX = 12 * 1024;

test("the client is 12 KB at most, minified and compressed, and imports nothing", async () => {
  const { outputFiles, metafile } = await build({
    entryPoints: ["src/client/client.ts"],
    bundle: true,
    minify: true,
    format: "esm",
    platform: "neutral",
    target: "es2022",
    write: false,
    metafile: true,
  });

  const bytes = gzipSync(outputFiles[0]?.contents ?? "").length;
  assert.ok(bytes > 1000 && bytes <= BYTES_MAX, `${bytes} bytes`);
  const files = Object.keys(metafile.inputs);
  assert.ok(
    files.every((file) => file.startsWith("src/client/")),
    files.join(" "),
  );
});
