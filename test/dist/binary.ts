import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import type { TestContext } from "node:test";

import { runProgram, startProgram, temporaryFolder } from "../helpers/program.ts";
import type { Finished, Program } from "../helpers/program.ts";

const ROOT = dirname(dirname(import.meta.dirname));
export const BINARY = join(ROOT, "dist", "postbackd");

/** The folders of a run of the executable, without a file of the project. */
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
  // An installed executable has no compile cache of a test run.
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
  const key = /pbd_live_[\dA-Za-z]{40}/.exec(JSON.stringify(JSON.parse(stdout)))?.[0];
  assert.ok(key !== undefined, `no key in ${Object.keys(JSON.parse(stdout)).join()}`);
  return { program, url, key };
}

/** The fields of a task that tests read. */
export interface ShownTask {
  readonly id: string;
  readonly status_code: number;
  readonly state: string;
  readonly result: unknown;
}

/** Posts one task and waits for its end. */
export async function runTask({ url, key }: Service, task: object): Promise<ShownTask> {
  const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
  const body = JSON.stringify([task]);
  const posted = await fetch(`${url}/v1/tasks/task_post`, { method: "POST", headers, body });
  const { id } = await onlyTask(posted);
  const path = `${url}/v1/tasks/task_get/${id}`;
  return onlyTask(await fetch(path, { headers: { ...headers, prefer: "wait=60" } }));
}

async function onlyTask(response: Response): Promise<ShownTask> {
  const { tasks } = (await response.json()) as { readonly tasks: readonly ShownTask[] };
  return tasks[0] ?? assert.fail("no task");
}
