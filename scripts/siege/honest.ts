import { setTimeout as sleep } from "node:timers/promises";

import { z } from "zod";

import { spread } from "../deliveries/arrivals.ts";
import { Durations } from "../kit/durations.ts";
import { HelperProcess, answerMessages } from "../kit/helper-process.ts";
import type { HttpMessage } from "../kit/http-messages.ts";
import { KeptConnection } from "../kit/kept-connection.ts";
import { attackTally } from "./attack-job.ts";

const begin = z.object({
  kind: z.literal("begin"),
  port: z.number(),
  keys: z.array(z.string()).readonly(),
  /** Of each account. */
  perSecond: z.number(),
});

const order = z.discriminatedUnion("kind", [
  begin,
  z.object({ kind: z.literal("mark") }),
  z.object({ kind: z.literal("end") }),
]);

const honestReport = z.object({
  /** From the moment at which a request was to be sent to its answer, since the mark. */
  answers: spread,
  /** What came instead of good answers; `unanswered` at the end. */
  bad: attackTally,
  /** The share of one core that the generator took itself. */
  cpuShare: z.number(),
});

/** What honest accounts were answered. */
export type HonestReport = Readonly<z.infer<typeof honestReport>>;

/** Honest accounts in a process of their own. */
export class Honest {
  readonly #helper = new HelperProcess(new URL(import.meta.url));

  /** From now on each asks so often: a task_post, a task_get of that task, a tasks_ready, and again. */
  async begin(job: Omit<z.infer<typeof begin>, "kind">): Promise<void> {
    await this.#helper.ask({ kind: "begin", ...job });
  }

  /** Reports what came until now, and counts anew. */
  async mark(): Promise<HonestReport> {
    return honestReport.parse(await this.#helper.ask({ kind: "mark" }));
  }

  /** Plans no more, waits for what is under way (10 s at most), and reports. */
  async end(): Promise<HonestReport> {
    return honestReport.parse(await this.#helper.ask({ kind: "end" }));
  }

  [Symbol.dispose](): void {
    this.#helper[Symbol.dispose]();
  }
}

const TICK_MS = 5;
const ADDRESSES = 20;
const ENDED_MS_MAX = 10_000;
const STATUS_CODE = /"status_code": ?(\d{5})/;
const TASK_ID = /"id": ?"([0-9a-f-]{36})"/;
const BODY = '[{"type":"echo","input":{"from":"an honest account"}}]';

/** The counts of all accounts together. */
class Counts {
  answers = new Durations();
  bad: Record<string, number> = {};
  open = 0;
  #cpu = process.cpuUsage();
  #at = performance.now();

  note(what: string, ms: number): void {
    this.answers.add(ms);
    if (what !== "ok") this.bad[what] = (this.bad[what] ?? 0) + 1;
  }

  report(): HonestReport {
    const { user, system } = process.cpuUsage(this.#cpu);
    const cpuShare = (user + system) / 1000 / (performance.now() - this.#at);
    return { answers: this.answers.spread, bad: { ...this.bad }, cpuShare };
  }

  reset(): void {
    this.answers = new Durations();
    this.bad = {};
    this.#cpu = process.cpuUsage();
    this.#at = performance.now();
  }
}

interface HonestPlace {
  readonly port: number;
  /** Its own address. */
  readonly from: string;
  readonly counts: Counts;
}

/** One account on one kept connection: a request waits for the one before it, and that counts. */
class HonestAccount {
  readonly #port: number;
  readonly #from: string;
  readonly #key: string;
  readonly #counts: Counts;
  readonly #planned: number[] = [];
  #connection: KeptConnection | null = null;
  #isAsking = false;
  #turn = 0;
  #taskId = "";

  constructor(key: string, { port, from, counts }: HonestPlace) {
    this.#key = key;
    this.#port = port;
    this.#from = from;
    this.#counts = counts;
  }

  plan(at: number): void {
    this.#counts.open++;
    this.#planned.push(at);
    if (!this.#isAsking) void this.#work();
  }

  async #work(): Promise<void> {
    this.#isAsking = true;
    for (let at = this.#planned.shift(); at !== undefined; at = this.#planned.shift()) {
      const what = await this.#ask();
      this.#counts.open--;
      this.#counts.note(what, performance.now() - at);
    }
    this.#isAsking = false;
  }

  async #ask(): Promise<string> {
    try {
      this.#connection ??= await KeptConnection.open(this.#port, this.#from);
      return this.#read(await this.#connection.ask(this.#request()));
    } catch {
      this.#connection?.[Symbol.dispose]();
      this.#connection = null;
      return "closed";
    }
  }

  #read({ head, body }: HttpMessage): string {
    const text = body.toString("latin1", 0, 600);
    if (!head.startsWith("HTTP/1.1 200")) {
      return STATUS_CODE.exec(text)?.[1] ?? head.slice(9, 12);
    }
    this.#taskId = TASK_ID.exec(text)?.[1] ?? this.#taskId;
    this.#turn++;
    return "ok";
  }

  #request(): string {
    const head = (line: string): string =>
      `${line} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer ${this.#key}\r\n`;
    if (this.#turn % 3 === 1) return `${head(`GET /v1/tasks/task_get/${this.#taskId}`)}\r\n`;
    if (this.#turn % 3 === 2) return `${head("GET /v1/tasks/tasks_ready?limit=10")}\r\n`;
    const rest = `Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\n\r\n${BODY}`;
    return `${head("POST /v1/tasks/task_post")}${rest}`;
  }
}

/** Plans the requests of all accounts evenly over each second, each account at its own moments. */
function pace(job: z.infer<typeof begin>, counts: Counts): NodeJS.Timeout {
  const { port, keys, perSecond } = job;
  const accounts = keys.map((key, index) => {
    const from = `127.0.5.${1 + (index % ADDRESSES)}`;
    return new HonestAccount(key, { port, from, counts });
  });
  const gapMs = 1000 / (perSecond * accounts.length);
  const from = performance.now();
  let planned = 0;
  return setInterval(() => {
    for (; from + planned * gapMs <= performance.now(); planned++) {
      accounts[planned % accounts.length]?.plan(from + planned * gapMs);
    }
  }, TICK_MS);
}

function answerOrders(): void {
  const counts = new Counts();
  let timer: NodeJS.Timeout | undefined;
  answerMessages(async (message) => {
    const asked = order.parse(message);
    if (asked.kind === "begin") {
      timer = pace(asked, counts);
      return {};
    }
    if (asked.kind === "end") {
      clearInterval(timer);
      const until = performance.now() + ENDED_MS_MAX;
      while (counts.open > 0 && performance.now() < until) await sleep(20);
      if (counts.open > 0) counts.bad["unanswered"] = counts.open;
    }
    const report = counts.report();
    counts.reset();
    return report;
  });
}

if (import.meta.main) answerOrders();
