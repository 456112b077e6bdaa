import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { ROOT } from "../../scripts/manifest.ts";
import { folderWith, testPackage } from "../package/packages.ts";
import { findRuntime } from "../runtimes/runtimes.ts";

const ARCHIVE = testPackage();

/** How compilers look for types, and from what: a file that imports, and one that requires. */
const RESOLUTIONS = [
  [".mts", "--module", "nodenext"],
  [".cts", "--module", "nodenext"],
  [".ts", "--module", "esnext", "--moduleResolution", "bundler"],
] as const;

/** Each of the two knows one that the other does not. */
const COMPILERS = {
  "TypeScript 7": [
    ...RESOLUTIONS,
    [".cts", "--module", "commonjs", "--moduleResolution", "bundler"],
  ],
  "TypeScript 5.9": [
    ...RESOLUTIONS,
    [".mts", "--module", "node16"],
    [".cts", "--module", "node16"],
    [".ts", "--module", "commonjs", "--moduleResolution", "node10"],
  ],
} as const;

const CLIENT = `
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
  // @ts-expect-error Unknown type.
  await client.tasks.post({ type: "cuont", input: "a" });
  // @ts-expect-error Unknown field.
  await client.tasks.post({ type: "count", input: "a", prioritty: 3 });
  // @ts-expect-error Unknown state.
  client.tasks.list({ state: "done" });
  // @ts-expect-error A task has a result after it completed.
  (await client.tasks.get<"count">("x")).result.toFixed();
  // @ts-expect-error A key is needed.
  createClient({ url: "https://tasks.example.com" });
}

export const genuine = (request: Request): Promise<boolean> => verifyRequest(request, ["a", "b"]);
export const adapters = [verifyNode, verifyExpress];
`;

const TESTING = `
import { checkReceiver, connectDaemon, startDaemon, type Inbox, type Message, type TestDaemon } from "postbackd/testing";

export async function typed(): Promise<string> {
  const here: TestDaemon = await startDaemon({ types: { double: (task) => 2 * Number(task.input) }, seed: 1 });
  const there: TestDaemon = await connectDaemon({ url: "http://127.0.0.1:8787" });
  const inbox: Inbox = there.inbox("orders");
  await inbox.answer([500, "hang", "reset", { status: 429, headers: { a: "b" }, after_ms: 5 }], 204);
  const message: Message = await inbox.next({ kind: "postback", wait: 1 });
  const work = await startDaemon<{ double: { input: number; result: number } }>({
    types: { double: (task) => task.input * 2 },
    config: { webhooks: { timeout: "5s" } },
  });
  const doubled: number = (await work.client.tasks.run({ type: "double", input: 1 })).result;
  const other = await work.account();
  await other.client.tasks.post({ type: "double", input: doubled });
  await checkReceiver(work, { start: async () => ({ url: "", effects: () => 1 }), task: () => ({}) });
  const [event] = await here.advance({ until: "idle" });
  const state: "scheduled" | "in_flight" | "delivered" | "given_up" | "refused" | undefined = event?.delivery;
  await here.faults({ duplicate: 0.5, delay_ms: 10 });
  await here.results([{ type: "double", result: [1], after_ms: 5 }, { error: "no" }, { hold: true }]);
  await here.finish("id", { result: { a: 1 } });
  const { explanation } = await here.waitFor("id", "settled", { timeout: 5 });
  await here.stop();
  return message.signature.verdict + (message.headers["x-signature"] ?? "") + (state ?? "") + JSON.stringify(explanation);
}

export async function wrong(daemon: TestDaemon): Promise<void> {
  // @ts-expect-error Unknown fault.
  await daemon.faults({ dupicate: 1 });
  // @ts-expect-error Unknown stage.
  await daemon.waitFor("id", "done");
  // @ts-expect-error Unknown answer.
  await daemon.inbox().answer(["hung"]);
  // @ts-expect-error Unknown setting.
  await startDaemon({ database: "postbackd.db" });
  // @ts-expect-error The configuration has another section.
  await startDaemon({ config: { webhoks: {} } });
  // @ts-expect-error The result is a number.
  await startDaemon<{ double: { input: 1; result: number } }>({ types: { double: () => "two" } });
}
`;

const LIBRARY = `
import { verifyPingback, verifyPostback, type RawBody } from "postbackd";
import { verifyPostback as only } from "postbackd/verify";
import { createWorker, type TaskWorker } from "postbackd/worker";
const body: RawBody = new Uint8Array(1);
export const verdicts: Promise<boolean>[] = [
  verifyPostback(body, null, ["a", "b"]),
  verifyPingback("http://a.example/", undefined, "a"),
  only("text", ["twice", "sent"], "a"),
];
// @ts-expect-error A body that was parsed has other bytes.
void verifyPostback({ tasks: [] }, "", "a");
const url = "http://127.0.0.1:8787";
export const worker: TaskWorker = createWorker<{ x: { width: number } }>({
  url,
  token: "",
  types: { x: async ({ input }, { signal }) => signal.aborted || input.width },
  concurrency: { x: 2 },
});
createWorker({ url, token: "", types: { x: ({ id, input }) => [id, input] }, concurrency: 2 });
// @ts-expect-error A type that has no handler.
createWorker<{ x: number; y: number }>({ url, token: "", types: { x: () => 1 } });
// @ts-expect-error An input of this type has no height.
createWorker<{ x: { width: 1 } }>({ url, token: "", types: { x: (task) => task.input.height } });
`;

const DAEMON = `
import { createDaemon } from "postbackd";
import type { ConfigSettings, DaemonSettings, FunctionTask } from "postbackd";
// @ts-expect-error Types are needed.
export const none: DaemonSettings = {};
export const kinds: DaemonSettings = {
  types: {
    a: async (task, { signal, progress }) => {
      progress(0.5, task.tag ?? undefined);
      return signal.aborted;
    },
    b: { run: () => 1, timeout: "10s", concurrency: 4, retries: 2 },
    c: { command: ["ls"] },
    d: { url: "http://127.0.0.1:9/", headers: { a: "b" } },
    e: { runner: "worker", lease: "5s" },
  },
};
// @ts-expect-error A type has one kind.
void createDaemon({ types: { a: { runner: "echo", lease: "5s" } } });
// @ts-expect-error A port is a number.
void createDaemon({ types: {}, port: "80" });
export const config: ConfigSettings = {
  webhooks: { timeout: "5s", retry_after: ["1m"], allow: ["127.0.0.1:9000"], max_in_flight: 16 },
  limits: { body: "64KiB", result: 4096, account: { open_tasks: 10 } },
  log: { level: "warn", requests: undefined },
  marketplaces: [{ code: "DE", name: "Germany", currency: "EUR" }],
};
// @ts-expect-error Unknown section.
void createDaemon({ types: {}, config: { webhoks: {} } });
// @ts-expect-error Unknown key.
void createDaemon({ types: {}, config: { webhooks: { timeot: "5s" } } });
// @ts-expect-error A list is needed.
void createDaemon({ types: {}, config: { webhooks: { allow: "127.0.0.1" } } });
// @ts-expect-error Unknown level.
void createDaemon({ types: {}, config: { log: { level: "loud" } } });
// @ts-expect-error It is given beside config.
void createDaemon({ types: {}, config: { port: 80 } });
interface Work {
  double: { input: number; result: number };
  count: { input: { text: string }; result: number };
  resize: { input: string; result: string };
}
const count = { run: async ({ input }: FunctionTask<Work["count"]["input"]>) => input.text.length };
const resize = { runner: "worker" } as const;
const work: DaemonSettings<Work> = {
  types: { double: (task) => task.input * 2, count, resize },
};
void createDaemon<Work>({ ...work, types: { ...work.types, double: async (task) => task.input } });
export const token = async () => (await createDaemon(work)).workerToken("a", ["resize"]);
// @ts-expect-error Unknown type.
export const none2 = async () => (await createDaemon(work)).workerToken("a", ["risize"]);
// @ts-expect-error An input of this type has no width.
void createDaemon<Work>({ types: { ...work.types, count: ({ input }) => input.width } });
// @ts-expect-error Its result is a number.
void createDaemon<Work>({ types: { ...work.types, double: () => "two" } });
// @ts-expect-error A type that has no function.
void createDaemon<Work>({ types: { double: () => 1, count } });
// @ts-expect-error Without types by name an input may be anything.
void createDaemon({ types: { double: (task) => task.input * 2 } });
`;

const PROGRAMS = { client: CLIENT, testing: TESTING, library: LIBRARY, daemon: DAEMON };

// The package's own types are held to the strictest settings, and nothing of them is left unchecked.
const STRICT = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"];
// The types of the web, without those of Node.
const ARGS = ["--noEmit", ...STRICT, "--target", "es2022"];

for (const [compiler, resolutions] of Object.entries(COMPILERS)) {
  for (const [extension, ...options] of resolutions) {
    test(`${extension} finds the types of all modules in ${compiler} with ${options.join(" ")}`, (t) => {
      const isOwn = compiler === "TypeScript 7";
      const tsc = isOwn
        ? join(ROOT, "node_modules", ".bin", "tsc")
        : findRuntime(t, join("typescript", "bin", "tsc"));
      if (tsc === null) return;
      const folder = folderWith(t, ARCHIVE);
      writeFileSync(join(folder, "package.json"), '{"type":"module"}');
      const files = Object.entries(PROGRAMS).map(([name, source]) => {
        writeFileSync(join(folder, name + extension), source);
        return name + extension;
      });
      // Only the newer one looks for a configuration beside the files that it is given.
      const args = [tsc, ...(isOwn ? ["--ignoreConfig"] : []), ...options, ...ARGS, ...files];

      const { status, stdout } = spawnSync(process.execPath, args, {
        cwd: folder,
        encoding: "utf8",
      });

      assert.equal(status, 0, stdout);
    });
  }
}
