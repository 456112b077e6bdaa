import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";
import { setTimeout as wait } from "node:timers/promises";

import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import type { Finished, Program } from "../helpers/program.ts";

const ROOT = dirname(dirname(import.meta.dirname));
export const BINARY = join(ROOT, "dist", "postbackd");

// Between two looks at a task that is not finished: nothing of another process can be waited for.
const LOOK_AGAIN_MS = 20;
const TASK_MS_MAX = 60_000;

/** Where the executable runs: nothing of the project is beside it or in its home. */
export interface Place {
  /** Its working folder, empty at first. */
  readonly cwd: string;
  readonly home: string;
  readonly env?: Readonly<Record<string, string>>;
}

/** An empty folder to run in, and another one for a home. */
export function emptyPlace(t: TestContext): Place {
  return { cwd: temporaryFolder(t), home: temporaryFolder(t) };
}

/** Starts the executable; it is killed when the test ends. */
export function startBinary(t: TestContext, args: readonly string[], place: Place): Program {
  return startProgram(t, args, optionsFor(place));
}

/** Runs a command of the executable to its end. */
export function runBinary(
  t: TestContext,
  args: readonly string[],
  place: Place,
): Promise<Finished> {
  return runProgram(t, args, optionsFor(place));
}

function optionsFor({ cwd, home, env }: Place): Parameters<typeof startProgram>[2] {
  assert.ok(existsSync(BINARY), "There is no dist/postbackd: run 'npm run build' first.");
  // What the test run keeps compiled is not what the executable finds where it is installed.
  return { cwd, env: { HOME: home, NODE_COMPILE_CACHE: "", ...env }, command: [BINARY] };
}

/** A served database with one account. */
export interface Service {
  readonly program: Program;
  readonly url: string;
  /** An API key of the account. */
  readonly key: string;
}

/** Starts the executable on a new file `data.db` in its folder and makes an account with it. */
export async function startService(
  t: TestContext,
  place: Place,
  args: readonly string[] = [],
): Promise<Service> {
  const program = startBinary(t, ["start", "--db", "data.db", "--port", "0", ...args], place);
  const { url } = await program.ready;

  const create = ["admin", "account", "create", "tester", "--json", "--db", "data.db"];
  const { code, stdout, stderr } = await runBinary(t, create, place);
  assert.equal(code, 0, stderr);
  // One JSON document; the key is in it, once.
  const key = /pbd_live_[\dA-Za-z]{40}/.exec(JSON.stringify(JSON.parse(stdout)))?.[0];
  assert.ok(key !== undefined, `no key in ${Object.keys(JSON.parse(stdout)).join()}`);
  return { program, url, key };
}

/** What a test reads of a task. */
export interface ShownTask {
  readonly id: string;
  readonly status_code: number;
  readonly state: string;
  readonly result: unknown;
}

/** Posts the body as it is; gives the HTTP status and the envelope. */
export async function post(
  { url, key }: Service,
  body: string,
): Promise<{ readonly status: number; readonly envelope: Envelope }> {
  const response = await fetch(`${url}/v1/tasks/task_post`, {
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body,
  });
  return { status: response.status, envelope: await envelopeOf(response) };
}

/** The part of an envelope that tests read. */
export interface Envelope {
  readonly status_code: number;
  readonly tasks?: readonly ShownTask[];
}

/** Gets the task until it is neither queued nor running. */
export async function finishedTask({ url, key }: Service, id: string): Promise<ShownTask> {
  const end = performance.now() + TASK_MS_MAX;
  while (performance.now() < end) {
    const response = await fetch(`${url}/v1/tasks/task_get/${id}`, {
      headers: { authorization: `Bearer ${key}` },
    });
    const task = (await envelopeOf(response)).tasks?.[0];
    if (task !== undefined && task.state !== "queued" && task.state !== "running") return task;
    await wait(LOOK_AGAIN_MS);
  }
  throw new Error(`task ${id} did not finish within ${TASK_MS_MAX} ms`);
}

/** Posts one task and waits for its end. */
export async function runTask(service: Service, task: object): Promise<ShownTask> {
  const { envelope } = await post(service, JSON.stringify([task]));
  const posted = envelope.tasks?.[0];
  assert.equal(posted?.status_code, 20100);
  return finishedTask(service, posted.id);
}

async function envelopeOf(response: Response): Promise<Envelope> {
  // Every field that a test uses is compared there.
  return (await response.json()) as Envelope;
}
