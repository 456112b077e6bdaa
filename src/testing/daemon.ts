import type { Answers, Bodies, Queries } from "../client/api.ts";
import { type ClientSettings, PostbackdError, readOpenSettings } from "../client/settings.ts";
import { type OwnFields, type Transport, createTransport, ownFields } from "../client/transport.ts";
import type { Timeline } from "../client/types.ts";
import type { AnyTypes, TaskTypes } from "../domain/task/function.ts";
import { makeAccount, type TestAccount } from "./account.ts";

/** Something that happened while the clock was advanced. */
export type DevEvent = Answers["POST /dev/clock/advance"]["events"][number];
/** `{ by: "21m" }`, `{ to: "2026-01-01T12:00:00Z" }` or `{ until: "idle" }`: nothing is scheduled any more. */
export type Advance = Bodies["POST /dev/clock/advance"];
export type ClockState = OwnFields<Answers["GET /dev/clock"]>;
export type ClockMode = ClockState["mode"];
/** How far a task has to be. */
export type Stage = NonNullable<Queries["GET /dev/wait/:task_id"]["for"]>;
/** The end of a task's run, instead of a computed one. */
export type ResultRule = Bodies["PUT /dev/results"][number];
export type RunEnd = Bodies["POST /dev/tasks/:id/finish"];
export type Faults = Bodies["PUT /dev/faults"];

export interface WaitOptions {
  /** How long, in seconds of the machine's time, 60 at most; 30 unless given. */
  readonly timeout?: number | undefined;
}

/** The daemon's clock. */
export interface TestClock {
  /** The time, and the next 20 things that fall due. */
  get(): Promise<ClockState>;
  /** `manual` stops it where it is; from `real` on it goes as the machine's. */
  set(mode: ClockMode): Promise<ClockState>;
}

/** A daemon for tests, with an account of its own. */
export interface TestDaemon<Types extends TaskTypes<Types> = AnyTypes> extends TestAccount<Types> {
  /** The base URL, without a slash at its end. */
  readonly url: string;
  readonly clock: TestClock;
  /**
   * Lets time pass, `"21m"` or to a moment. Resolves when all that fell due on the way has happened, attempts over the
   * network and what followed from them too. Returns all events since the previous advance, in their order.
   */
  advance(time: string | Advance): Promise<readonly DevEvent[]>;
  /**
   * Waits until a task has `ended`, every webhook of it is `delivered`, or it is `settled`: no webhook is still to be
   * sent. Returns its timeline; rejects with the timeline so far.
   */
  waitFor(taskId: string, stage?: Stage, options?: WaitOptions): Promise<Timeline>;
  /** Runs end as the first rule says that fits; those that none fits are run. Replaces the rules there are. */
  results(rules: readonly ResultRule[]): Promise<void>;
  /** Ends the run of a task under `hold`. */
  finish(taskId: string, end: RunEnd): Promise<void>;
  /** Delivers with faults from now on: each is the share of attempts that have it, 0 to 1. Without any, they end. */
  faults(faults: Faults): Promise<void>;
  /** Creates an account for one of several tests, or another key of an existing account. */
  account(login?: string): Promise<TestAccount<Types>>;
  /** Erases tasks, inboxes, rules and faults; accounts stay. */
  reset(): Promise<void>;
  /** Ends a daemon that `startDaemon` started, and only this object where it was found by `connectDaemon`. */
  stop(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface ConnectSettings {
  /** Base URL of a `postbackd dev`: `http://localhost:8080`. */
  readonly url: string | URL;
}

/** The object for the daemon at a URL, which `stop` ends. */
export async function testDaemon<Types extends TaskTypes<Types>>(
  settings: Pick<ClientSettings, "url" | "fetch" | "retries">,
  stop: () => Promise<void>,
): Promise<TestDaemon<Types>> {
  const access = readOpenSettings(settings);
  const place = { url: access.base, fetch: settings.fetch };
  const { url } = place;
  const transport = createTransport(access);
  await checkMode(transport, url);
  const account = await makeAccount<Types>(transport, place);
  return {
    ...account,
    url,
    clock: {
      get: async () => ownFields(await transport.call("GET /dev/clock", {})),
      set: async (mode) => ownFields(await transport.call("PUT /dev/clock", { body: { mode } })),
    },
    async advance(time) {
      const body = typeof time === "string" ? { by: time } : time;
      return (await transport.call("POST /dev/clock/advance", { body })).events;
    },
    async waitFor(taskId, stage = "settled", { timeout } = {}) {
      const request = { params: { task_id: taskId }, query: { for: stage, timeout } };
      return ownFields(await transport.call("GET /dev/wait/:task_id", request));
    },
    async results(body) {
      await transport.call("PUT /dev/results", { body });
    },
    async finish(taskId, body) {
      await transport.call("POST /dev/tasks/:id/finish", { params: { id: taskId }, body });
    },
    async faults(body) {
      await transport.call("PUT /dev/faults", { body });
    },
    async reset() {
      await transport.call("POST /dev/reset", {});
    },
    account: (login) => makeAccount(transport, { ...place, login }),
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

async function checkMode(transport: Transport, url: string): Promise<void> {
  try {
    await transport.call("GET /dev/clock", {});
  } catch (error) {
    if (!(error instanceof PostbackdError) || error.code !== 40400) throw error;
    const message = `The daemon at ${url} is not for tests: start one with 'postbackd dev'.`;
    throw new Error(message, { cause: error });
  }
}
