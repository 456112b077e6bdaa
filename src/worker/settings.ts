import { hasKeyForm, WORKER_TOKEN_PREFIX } from "../domain/account/account.ts";
import { readBaseUrl } from "../domain/address/address.ts";
import { CLAIM_WAIT_SECONDS_MAX } from "../domain/lease/lease.ts";
import { guarded, isLogger, SILENT, type Logger } from "../domain/log.ts";
import { quote } from "../domain/rule.ts";
import type { TaskHandler, WorkerSettings } from "./options.ts";

/** A program's settings, checked. */
export interface TaskWorkerPlan {
  readonly url: URL;
  readonly token: string;
  readonly handlers: ReadonlyMap<string, TaskHandler>;
  /** Of all types together, or of each by its name. */
  readonly concurrency: number | ReadonlyMap<string, number>;
  readonly waitSeconds: number;
  readonly onReady: () => void;
  readonly onError: NonNullable<WorkerSettings<unknown>["onError"]>;
  readonly log: Logger;
}

type Given = { readonly [Name in keyof WorkerSettings<unknown>]?: unknown };

/** Takes a sentence about a setting that is wrong. No sentence repeats a token. */
type Refuse = (problem: string) => void;

// As many as one heartbeat may name (worker-protocol.md).
const CONCURRENCY_MAX = 1000;

const NAMES: Readonly<Record<keyof WorkerSettings<unknown>, true>> = {
  url: true,
  token: true,
  types: true,
  concurrency: true,
  waitSeconds: true,
  insecureHttp: true,
  onReady: true,
  onError: true,
  log: true,
};

/** Reads a program's settings, which may be without types. Throws one Error that names everything that is wrong. */
export function readSettings(settings: unknown): TaskWorkerPlan {
  const problems: string[] = [];
  const refuse: Refuse = (problem) => void problems.push(problem);
  const given: Given = isTable(settings) ? settings : {};
  for (const name of Object.keys(given)) {
    if (!Object.hasOwn(NAMES, name)) refuse(`${quote(name)} is an unknown setting`);
  }
  const url = readUrl(given, refuse);
  const token = readToken(given.token, refuse);
  const handlers = readHandlers(given.types, refuse);
  const concurrency = readConcurrency(given.concurrency ?? 1, { handlers, refuse });
  const { waitSeconds = CLAIM_WAIT_SECONDS_MAX, log = SILENT } = given;
  const { onReady = () => {}, onError = () => {} } = given;
  const isWait = typeof waitSeconds === "number" && waitSeconds >= 1;
  if (!isWait || waitSeconds > CLAIM_WAIT_SECONDS_MAX) {
    refuse(`waitSeconds must be a number from 1 to ${CLAIM_WAIT_SECONDS_MAX}`);
  }
  if (!isFunction(onReady)) refuse("onReady must be a function");
  if (!isFunction(onError)) refuse("onError must be a function");
  if (!isLogger(log)) refuse("log must be a logger with debug, info, warn and error");
  const isFine = url !== null && isWait && isFunction(onReady) && isFunction(onError);
  if (problems.length > 0 || !isFine || !isLogger(log)) {
    throw new TypeError(
      `createWorker cannot use its settings:\n${problems.map((text) => `- ${text}`).join("\n")}`,
    );
  }
  const rest = { waitSeconds, onReady, onError, log: guarded(log) };
  return { url, token, handlers, concurrency, ...rest };
}

function readUrl({ url: given, insecureHttp = false }: Given, refuse: Refuse): URL | null {
  const isUrl = typeof given === "object" && given !== null && "href" in given;
  const text = isUrl ? given.href : given;
  const base = typeof text === "string" ? readBaseUrl(text) : null;
  if (base === null) {
    refuse("url must be a base URL such as https://tasks.example.com, without a user");
  } else if (base.isReadable && insecureHttp !== true) {
    refuse(
      `${base.url.origin} is plain HTTP beyond this machine: token and tasks would be readable on the network; ` +
        "give an https URL, or insecureHttp: true if you trust the network",
    );
  }
  return base?.url ?? null;
}

function readToken(token: unknown, refuse: Refuse): string {
  if (typeof token === "string" && hasKeyForm(token, WORKER_TOKEN_PREFIX)) return token;
  refuse(
    `token must be a worker's token, which is ${WORKER_TOKEN_PREFIX} and 40 characters; ` +
      "make one with 'postbackd admin worker create'",
  );
  return "";
}

function readHandlers(types: unknown, refuse: Refuse): ReadonlyMap<string, TaskHandler> {
  const handlers = new Map<string, TaskHandler>();
  for (const [type, handler] of Object.entries(isTable(types) ? types : {})) {
    if (isFunction(handler)) handlers.set(type, handler);
    else refuse(`types.${type} must be a function, async (task, { signal, progress }) => result`);
  }
  if (!isTable(types) || Object.keys(types).length === 0) {
    refuse("types is missing: give at least one, such as { resize: async (task) => … }");
  }
  return handlers;
}

function readConcurrency(
  given: unknown,
  {
    handlers,
    refuse,
  }: { readonly handlers: ReadonlyMap<string, unknown>; readonly refuse: Refuse },
): number | ReadonlyMap<string, number> {
  const table = isTable(given) ? given : null;
  for (const type of Object.keys(table ?? {})) {
    if (!handlers.has(type)) refuse(`concurrency names ${quote(type)}, which types does not`);
  }
  const counts = table === null ? [given] : [...handlers.keys()].map((type) => table[type] ?? 1);
  const numbers = counts
    .filter((count) => Number.isInteger(count) && Number(count) >= 1)
    .map(Number);
  const total = numbers.reduce((sum, count) => sum + count, 0);
  if (numbers.length < counts.length || total > CONCURRENCY_MAX) {
    refuse(`concurrency must be whole numbers from 1 on, at most ${CONCURRENCY_MAX} altogether`);
  }
  if (table === null) return total;
  return new Map([...handlers.keys()].map((type, i) => [type, numbers[i] ?? 1]));
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isFunction(value: unknown): value is (...args: readonly unknown[]) => unknown {
  return typeof value === "function";
}
