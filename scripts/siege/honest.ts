import { setTimeout as sleep } from "node:timers/promises";

import { Durations, type Spread } from "../kit/durations.ts";
import { helperProcess } from "../kit/helper-process.ts";
import type { HttpMessage } from "../kit/http-messages.ts";
import { KeptConnection } from "../kit/kept-connection.ts";
import { requestText } from "../kit/request.ts";
import type { AttackTally } from "./attack-job.ts";
import { outcomeOf } from "./status-code.ts";

/** The honest accounts, and how often they ask. */
export interface HonestJob {
  readonly port: number;
  readonly keys: readonly string[];
  /** Of each account. */
  readonly perSecond: number;
}

/** The answers of honest accounts. */
export interface HonestReport {
  /** From the moment when a request was due to its answer, since the mark. */
  readonly answers: Spread;
  /** The outcomes instead of good answers; `unanswered` at the end. */
  readonly bad: AttackTally;
  /** The share of one core that the generator itself took. */
  readonly cpuShare: number;
}

const TICK_MS = 5;
const ADDRESSES = 20;
const ENDED_MS_MAX = 10_000;
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

/** One account on one kept connection: a request waits for the previous one, and that time counts. */
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

  #read(answer: HttpMessage): string {
    const outcome = outcomeOf(answer);
    if (outcome !== "ok") return outcome;
    this.#taskId = TASK_ID.exec(answer.body.toString("latin1", 0, 600))?.[1] ?? this.#taskId;
    this.#turn++;
    return outcome;
  }

  #request(): string {
    const secret = this.#key;
    if (this.#turn % 3 === 1) {
      return requestText(`GET /v1/tasks/task_get/${this.#taskId}`, { secret });
    }
    if (this.#turn % 3 === 2) return requestText("GET /v1/tasks/tasks_ready?limit=10", { secret });
    return requestText("POST /v1/tasks/task_post", { secret, body: BODY });
  }
}

/** Plans the requests of all accounts evenly over each second, each account at its own moments. */
function pace(job: HonestJob, counts: Counts): NodeJS.Timeout {
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

class Accounts {
  readonly #counts = new Counts();
  #timer: NodeJS.Timeout | undefined;

  /** From now on each account asks so often: a task_post, a task_get of that task, a tasks_ready, and so on. */
  begin(job: HonestJob): void {
    this.#timer = pace(job, this.#counts);
  }

  /** Reports everything until now, and counts anew. */
  mark(): HonestReport {
    const report = this.#counts.report();
    this.#counts.reset();
    return report;
  }

  /** Plans no more, waits for what is under way (10 s at most), and reports. */
  async end(): Promise<HonestReport> {
    const counts = this.#counts;
    clearInterval(this.#timer);
    const until = performance.now() + ENDED_MS_MAX;
    while (counts.open > 0 && performance.now() < until) await sleep(20);
    if (counts.open > 0) counts.bad["unanswered"] = counts.open;
    return this.mark();
  }
}

/** Honest accounts in a process of their own. */
export class Honest extends helperProcess(import.meta, Accounts) {}
