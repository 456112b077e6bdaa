import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test, type TestContext } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { folderWith, testPackage } from "../package/npm-package.ts";
import { findRuntime } from "../runtimes/runtimes.ts";

const ARCHIVE = await testPackage();

const TYPES = `
import { createClient, PostbackdError, type EndedTask, type NewTask } from "postbackd/client";
import { verifyExpress, verifyNode, verifyRequest } from "postbackd/verify";

interface Work {
  resize: { input: { file: string; width?: number }; result: { bytes: number } };
  count: { input: string; result: number };
}
const client = createClient<Work>({ url: "https://tasks.example.com", key: "k" });
const plain = createClient({ url: new URL("https://tasks.example.com"), key: "k" });
const task: NewTask<Work, "count"> = { type: "count", input: "words" };
const input: string = task.input;

export async function typed(): Promise<number> {
  const done = await client.tasks.run({ type: "resize", input: { file: input }, priority: 3 });
  const width: number | undefined = done.data.input.width;
  const ended: EndedTask<Work> = await client.tasks.wait(done.id);
  if (ended.state === "completed" && ended.type === "count") return ended.result + (width ?? 0);
  const counted = await client.tasks.wait<"count">(done.id);
  if (counted.state === "completed") return counted.result;
  for await (const { tag } of client.tasks.search("state:failed")) if (tag === "x") break;
  const posted = await client.tasks.postMany([task, { type: "resize", input: { file: "a" } }]);
  return posted.length + done.result.bytes;
}

export async function untyped(error: unknown): Promise<void> {
  const { result } = await plain.tasks.run({ input: [1] });
  const unknown: unknown = result;
  await plain.tasks.post({ type: "any", input: unknown });
  if (error instanceof PostbackdError && error.code === 40401) console.log(error.errors[0]?.pointer);
}

export async function wrong(): Promise<void> {
  // @ts-expect-error The input is another type's.
  await client.tasks.post({ type: "count", input: { file: "a" } });
  // @ts-expect-error There is no such type.
  await client.tasks.post({ type: "cuont", input: "a" });
  // @ts-expect-error There is no such field.
  await client.tasks.post({ type: "count", input: "a", prioritty: 3 });
  // @ts-expect-error There is no such state.
  client.tasks.list({ state: "done" });
  // @ts-expect-error Until it has completed there is no result.
  (await client.tasks.get<"count">("x")).result.toFixed();
  // @ts-expect-error A key is needed.
  createClient({ url: "https://tasks.example.com" });
}

export const genuine = (request: Request): Promise<boolean> => verifyRequest(request, ["a", "b"]);
export const adapters = [verifyNode, verifyExpress];
`;

/** How compilers look for types; TypeScript 7 has no node10 any more. */
const RESOLUTIONS = [
  ["user.mts", "--module", "nodenext"],
  ["user.cts", "--module", "nodenext"],
  ["user.mts", "--module", "node16"],
  ["user.cts", "--module", "node16"],
  ["user.ts", "--module", "esnext", "--moduleResolution", "bundler"],
  ["user.cts", "--module", "commonjs", "--moduleResolution", "bundler"],
] as const;

for (const [file, ...options] of RESOLUTIONS) {
  test(`${file} finds the client's types with ${options.join(" ")}, by type name and nothing left unchecked`, (t) => {
    const tsc = join(ROOT, "node_modules", ".bin", "tsc");

    compile(t, [tsc, "--ignoreConfig", ...options], file);
  });
}

/** Of TypeScript 5.9, which still knows node10. */
const OLD_RESOLUTIONS = [
  ["user.ts", "--module", "commonjs", "--moduleResolution", "node10"],
  ["user.ts", "--module", "esnext", "--moduleResolution", "bundler"],
  ["user.mts", "--module", "nodenext"],
  ["user.cts", "--module", "nodenext"],
] as const;

for (const [file, ...options] of OLD_RESOLUTIONS) {
  test(`${file} finds the client's types in TypeScript 5.9 with ${options.join(" ")}`, (t) => {
    const tsc = findRuntime(t, join("typescript", "bin", "tsc"));
    if (tsc === null) return;

    compile(t, [tsc, ...options], file);
  });
}

function compile(t: TestContext, command: readonly string[], file: string): void {
  const folder = folderWith(t, ARCHIVE);
  writeFileSync(join(folder, "package.json"), '{"type":"module"}');
  writeFileSync(join(folder, file), TYPES);
  // Types of the web and none of Node; the client's own are held to the strictest settings.
  const args = ["--noEmit", "--strict", "--exactOptionalPropertyTypes"];
  const rest = ["--noUncheckedIndexedAccess", "--target", "es2022", file];

  const { status, stdout } = spawnSync(process.execPath, [...command, ...args, ...rest], {
    cwd: folder,
    encoding: "utf8",
  });

  assert.equal(status, 0, stdout);
}

test("where package.json's exports are not read (node10), its typesVersions name the types", (t) => {
  const home = join(folderWith(t, ARCHIVE), "node_modules", "postbackd");
  const manifest: {
    readonly typesVersions: Readonly<Record<string, Readonly<Record<string, readonly string[]>>>>;
  } = JSON.parse(readFileSync(join(home, "package.json"), "utf8"));

  const named = manifest.typesVersions["*"] ?? {};

  assert.deepEqual(Object.keys(named), ["client", "testing", "verify", "worker"]);
  for (const [name, [file = ""]] of Object.entries(named)) {
    assert.match(readFileSync(join(home, file), "utf8"), /^export /m, name);
  }
});

test("the packed client takes nothing for granted but what every runtime has", () => {
  const source = readFileSync(join(ROOT, "dist", "client", "client.js"), "utf8");

  assert.doesNotMatch(source, /^\s*import\b|\bimport\s*\(|\brequire\s*\(|\bprocess\b|\bBuffer\b/m);
});
