import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";

import { build } from "esbuild";

import { ROOT } from "../../scripts/manifest.ts";
import { apiTypes } from "../../scripts/package-types.ts";
import { startTestDaemon } from "../helpers/daemon.ts";
import { runProgram, temporaryFolder } from "../helpers/program.ts";

const DOCUMENT = join(ROOT, "docs", "guides", "js-client.md");

/** The part of Express that the document uses. */
const EXPRESS = `
declare module "express" {
  import type { IncomingMessage } from "node:http";
  interface Request extends IncomingMessage { originalUrl: string; body: unknown }
  interface Response { sendStatus(status: number): void }
  type Handler = (request: Request, response: Response) => Promise<void>;
  interface App { post(path: string, raw: object, handler: Handler): void }
  function express(): App;
  namespace express { function raw(options: { type: string; limit: string }): object }
  export default express;
}
`;
const EXPRESS_CODE = `
const express = () => ({ post() {} });
express.raw = () => ({});
export default express;
`;

/** The programs of the document as one program, its imports first. */
function program(): string {
  const text = readFileSync(DOCUMENT, "utf8");
  const blocks = Array.from(text.matchAll(/^```ts\n(.*?)^```$/gms), ([, code = ""]) => code);
  assert.ok(blocks.length >= 9, `${blocks.length} programs`);
  const lines = blocks.map((block) => block.split("\n"));
  const isImport = (line: string): boolean => line.startsWith("import ");
  const imports = new Set(lines.flat().filter(isImport));
  const parts = lines.map((block) => block.filter((line) => !isImport(line)).join("\n"));
  return [...imports, ...parts].join("\n");
}

/** A folder where the modules of the package are the sources, and Express is a stub. */
function folderWithProgram(t: TestContext): string {
  const folder = temporaryFolder(t);
  const modules = join(folder, "node_modules");
  mkdirSync(join(modules, "express"), { recursive: true });
  mkdirSync(join(modules, "postbackd"));
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  writeFileSync(join(folder, "program.ts"), program());
  writeFileSync(join(folder, "express.d.ts"), EXPRESS);
  writeFileSync(join(modules, "express", "index.js"), EXPRESS_CODE);
  writeFileSync(
    join(modules, "express", "package.json"),
    '{"type":"module","exports":"./index.js"}',
  );
  const exported = { "./client": "./src/client/client.ts", "./verify": "./src/verify.ts" };
  symlinkSync(join(ROOT, "src"), join(modules, "postbackd", "src"));
  writeFileSync(
    join(modules, "postbackd", "package.json"),
    JSON.stringify({ type: "module", exports: exported }),
  );
  return folder;
}

test("the programs of docs/guides/js-client.md compile under strict", (t) => {
  const folder = folderWithProgram(t);
  const args = [
    ...["--ignoreConfig", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext"],
    ...["--target", "esnext", "--lib", "esnext", "--allowImportingTsExtensions"],
    "--exactOptionalPropertyTypes",
    ...["--typeRoots", join(ROOT, "node_modules", "@types"), "--types", "node"],
  ];
  const tsc = join(ROOT, "node_modules", ".bin", "tsc");

  const { stdout } = spawnSync(process.execPath, [tsc, ...args, "program.ts", "express.d.ts"], {
    cwd: folder,
    encoding: "utf8",
  });

  assert.equal(stdout, "");
});

test("the programs of docs/guides/js-client.md run", async (t) => {
  const cwd = folderWithProgram(t);
  const daemon = await startTestDaemon(t);

  const { code, stdout, stderr } = await runProgram(t, ["program.ts"], {
    command: [process.execPath, "--import", import.meta.resolve("tsx")],
    cwd,
    env: { URL: daemon.url, KEY: daemon.account.key },
  });

  assert.equal(code, 0, stderr);
  assert.match(stdout, /^a\.mp4\nb\.mp4\n/);
  assert.match(stdout, /\n100 \d+\n/);
});

const SAME = `
import type * as sources from ${JSON.stringify(join(ROOT, "src", "client", "api.ts"))};
import type * as written from "./written.ts";

type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;
type Different<A, B> = {
  [Key in keyof A | keyof B]: Key extends keyof A & keyof B
    ? Same<A[Key], B[Key]> extends true ? never : Key
    : Key;
}[keyof A | keyof B];

export const none: [
  Different<sources.Answers, written.Answers>,
  Different<sources.Queries, written.Queries>,
  Different<sources.Bodies, written.Bodies>,
] extends [never, never, never] ? true : false = true;
export const codes: Same<sources.Code, written.Code> = true;

// A difference is an error.
import type * as wrong from "./wrong.ts";
// @ts-expect-error
export const differs: Different<sources.Answers, wrong.Answers> extends never ? true : false = true;
`;

test("the API types of the package equal the types of the sources", (t) => {
  const folder = temporaryFolder(t);
  const types = apiTypes();
  writeFileSync(join(folder, "written.ts"), types);
  const wrong = types.replace("readonly key_limit: number;", "readonly key_limit: string;");
  writeFileSync(join(folder, "wrong.ts"), wrong);
  writeFileSync(join(folder, "same.ts"), SAME);
  const args = [
    ...["--ignoreConfig", "--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext"],
    ...["--allowImportingTsExtensions", "--typeRoots", join(ROOT, "node_modules", "@types")],
    ...["--types", "node", "same.ts"],
  ];
  const tsc = join(ROOT, "node_modules", ".bin", "tsc");
  const checked = spawnSync(process.execPath, [tsc, ...args], { cwd: folder, encoding: "utf8" });

  assert.notEqual(wrong, types);
  assert.equal(checked.stdout, "");
});

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
