import { readFileSync } from "node:fs";
import { Agent, request, type IncomingMessage, type RequestOptions } from "node:http";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";

import { spreadOf, type Spread } from "../../kit/measure.ts";
import { descriptorCount, processUsage } from "../../kit/processes.ts";
import { codeOf, countUp, type Tally } from "./attacker.ts";

/** Durations; a request without response counts with the time that it waited. */
export interface Figures extends Spread {
  /** The number of bad responses, by outcome. */
  readonly bad: Tally;
}

type Question = "get" | "post" | "livez";
export type OtherFigures = Readonly<Record<Question, Figures>>;

/** One request. Times are of `performance.now()`. */
interface Sample {
  readonly question: Question;
  /** When it was due: the wait for a connection counts. */
  readonly at: number;
  /** Null until it has a response. */
  ms: number | null;
  /** `ok`, a status code or `closed`; `unanswered` until then. */
  outcome: string;
}

const PER_SECOND = { get: 50, post: 1, livez: 10 } as const;
const ANEW_EVERY = 25;
const KEPT = 4;
const POSTED = '[{"type":"echo","input":{"from":"the other"}}]';
const LOOK_MS = 100;
const SETTLED_GETS = 50;
const SLOW_GETS_MAX = 2;

/**
 * The account that attacks must not affect. It reads one of its tasks 50 times per second, posts one per second, and
 * requests /livez. Requests are sent on time over kept connections, every 25th read over a new one.
 */
export class OtherAccount {
  readonly #samples: Sample[] = [];
  readonly #kept = new Agent({ keepAlive: true, maxSockets: KEPT });
  readonly #timers: readonly NodeJS.Timeout[];
  /** Changes if the daemon starts again. */
  port: number;

  constructor(other: { readonly key: string; readonly taskId: string }, port: number) {
    this.port = port;
    const requests = {
      get: ["GET", `/v1/tasks/task_get/${other.taskId}`],
      post: ["POST", "/v1/tasks/task_post"],
      livez: ["GET", "/livez"],
    } as const;
    const headers = { authorization: `Bearer ${other.key}`, "content-type": "application/json" };
    this.#timers = (["get", "post", "livez"] as const).map((question) =>
      pace(PER_SECOND[question], (at, index) => {
        const sample: Sample = { question, at, ms: null, outcome: "unanswered" };
        this.#samples.push(sample);
        const [method, path] = requests[question];
        const agent = question === "get" && index % ANEW_EVERY === 0 ? false : this.#kept;
        const to = { host: "127.0.0.1", port: this.port, method, path, headers, agent };
        void outcomeOf(to, question === "post" ? POSTED : "").then((outcome) => {
          Object.assign(sample, { ms: performance.now() - at, outcome });
        });
      }),
    );
  }

  /** Of the requests that were due from `from` on and before `to`. */
  figures(from: number, to: number): OtherFigures {
    const now = performance.now();
    const of = (question: Question): Figures => {
      const isWanted = (each: Sample): boolean => each.question === question;
      const samples = this.#samples.filter(
        (each) => isWanted(each) && each.at >= from && each.at < to,
      );
      const bad: Tally = {};
      for (const { outcome } of samples) if (outcome !== "ok") countUp(bad, outcome);
      // A refusal may be quick: it does not count as a response.
      const answered = samples.filter(({ outcome, ms }) => outcome === "ok" || ms === null);
      return { ...spreadOf(answered.map(({ ms, at }) => ms ?? now - at)), bad };
    };
    return { get: of("get"), post: of("post"), livez: of("livez") };
  }

  /**
   * Waits until all is as before: 50 reads in a row, two of them over new connections, all ok and all but two within
   * `msMax`. Returns how many milliseconds after `from` the first of them was due; null if not within `waitMs`.
   */
  async settled(
    from: number,
    { msMax, waitMs }: { readonly msMax: number; readonly waitMs: number },
  ): Promise<number | null> {
    while (performance.now() < from + waitMs) {
      await sleep(LOOK_MS);
      const gets = this.#samples.filter(({ at, question }) => at >= from && question === "get");
      for (let index = 0; index + SETTLED_GETS <= gets.length; index++) {
        const some = gets.slice(index, index + SETTLED_GETS);
        const slow = some.filter(({ ms }) => ms === null || ms > msMax).length;
        if (some.every(({ outcome }) => outcome === "ok") && slow <= SLOW_GETS_MAX)
          return (some[0]?.at ?? from) - from;
      }
    }
    return null;
  }

  [Symbol.dispose](): void {
    for (const timer of this.#timers) clearInterval(timer);
    this.#kept.destroy();
  }
}

/** `ok`, a status code, or `closed` if the connection broke or was refused. */
async function outcomeOf(to: RequestOptions, body: string): Promise<string> {
  try {
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request(to, resolve).on("error", reject).end(body);
    });
    const head = `HTTP/1.1 ${response.statusCode}`;
    const answer = { head, body: await buffer(response) };
    return response.statusCode === 200 ? "ok" : codeOf(answer);
  } catch {
    return "closed";
  }
}

const TICK_MS = 5;

/** Calls `due` at a steady rate, with the time of `performance.now()` that is due, until the timer is cleared. */
function pace(perSecond: number, due: (at: number, index: number) => void): NodeJS.Timeout {
  const from = performance.now();
  let index = 0;
  const at = (): number => from + (index * 1000) / perSecond;
  return setInterval(() => {
    for (; at() <= performance.now(); index++) due(at(), index);
  }, TICK_MS);
}

const EVERY_MS = 100;
const RSS_BYTES_MAX = 4e9;
const AVAILABLE_BYTES_MIN = 1.5e9;
const PAGE_BYTES = 4096;

/** The highest values since the last reset, and the present memory. */
const NOTHING_SEEN = { rssBytesMax: 0, kernelBytesMax: 0, descriptorsMax: 0, rssBytes: 0 };

/** Measures a daemon ten times per second, and the memory of all TCP sockets of the machine. */
export class VitalsWatch {
  /** A daemon that was started again is another process. */
  pid: number;
  seen = NOTHING_SEEN;
  readonly #timer: NodeJS.Timeout;
  readonly #onDanger: (why: string) => void;

  /** `onDanger` is called while more than 4 GB are resident or less than 1.5 GB available. */
  constructor(pid: number, onDanger: (why: string) => void) {
    this.pid = pid;
    this.#onDanger = onDanger;
    this.#timer = setInterval(() => this.#look(), EVERY_MS);
  }

  reset(): void {
    this.seen = NOTHING_SEEN;
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    // 0 if the daemon has ended, which others report.
    let [rssBytes, descriptors] = [0, 0];
    try {
      rssBytes = processUsage(this.pid).rssBytes;
      descriptors = descriptorCount(this.pid);
    } catch {}
    const sockets = readFileSync("/proc/net/sockstat", "latin1");
    const tcpBytes = Number(/^TCP:.* mem (\d+)$/m.exec(sockets)?.[1] ?? 0) * PAGE_BYTES;
    const { rssBytesMax, kernelBytesMax, descriptorsMax } = this.seen;
    this.seen = {
      rssBytes,
      rssBytesMax: Math.max(rssBytesMax, rssBytes),
      kernelBytesMax: Math.max(kernelBytesMax, tcpBytes),
      descriptorsMax: Math.max(descriptorsMax, descriptors),
    };
    const memory = readFileSync("/proc/meminfo", "latin1");
    const available = Number(/^MemAvailable:\s+(\d+) kB$/m.exec(memory)?.[1] ?? Infinity) * 1024;
    if (rssBytes > RSS_BYTES_MAX) this.#onDanger("4 GB resident");
    else if (available < AVAILABLE_BYTES_MIN) this.#onDanger("1.5 GB available");
  }
}
