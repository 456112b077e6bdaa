import { setTimeout as sleep } from "node:timers/promises";

import { Durations } from "../kit/durations.ts";
import { helperProcess } from "../kit/helper-process.ts";
import { requestText } from "../kit/request.ts";
import { pace, Sender } from "../kit/sender.ts";
import type { Figures } from "./other.ts";
import { countUp, outcomeOf, type Tally } from "./outcome.ts";

/** The honest accounts, and how often they ask. */
export interface HonestJob {
  readonly port: number;
  readonly keys: readonly string[];
  /** Of each account. */
  readonly perSecond: number;
}

/** The answers of honest accounts, since the mark, from the moment when a request was due. */
export interface HonestReport extends Figures {
  /** The share of one core that the generator itself took. */
  readonly cpuShare: number;
}

const ADDRESSES = 20;
const ENDED_MS_MAX = 10_000;
const TASK_ID = /"id": ?"([0-9a-f-]{36})"/;
const BODY = '[{"type":"echo","input":{"from":"an honest account"}}]';

class Accounts {
  #answers = new Durations();
  #bad: Tally = {};
  #open = 0;
  #cpu = process.cpuUsage();
  #markedAt = performance.now();
  #timer: NodeJS.Timeout | undefined;

  /** From now on each account asks so often: a task_post, a task_get of that task, a tasks_ready, and so on. */
  begin({ port, keys, perSecond }: HonestJob): void {
    const accounts = keys.map((key, index) =>
      this.#account(key, { port, address: `127.0.5.${1 + (index % ADDRESSES)}` }),
    );
    this.#timer = pace(perSecond * accounts.length, (at, index) => {
      this.#open++;
      accounts[index % accounts.length]?.send(at);
    });
  }

  /** Reports everything until now, and counts anew. */
  mark(): HonestReport {
    const { user, system } = process.cpuUsage(this.#cpu);
    const cpuShare = (user + system) / 1000 / (performance.now() - this.#markedAt);
    const report = { ...this.#answers.spread, bad: this.#bad, cpuShare };
    this.#answers = new Durations();
    this.#bad = {};
    this.#cpu = process.cpuUsage();
    this.#markedAt = performance.now();
    return report;
  }

  /** Plans no more, waits for what is under way (10 s at most), and reports. */
  async end(): Promise<HonestReport> {
    clearInterval(this.#timer);
    const until = performance.now() + ENDED_MS_MAX;
    while (this.#open > 0 && performance.now() < until) await sleep(20);
    if (this.#open > 0) countUp(this.#bad, "unanswered", this.#open);
    return this.mark();
  }

  /** One account on one kept connection: a request waits for the previous one, and that time counts. */
  #account(secret: string, place: { readonly port: number; readonly address: string }) {
    let turn = 0;
    let taskId = "";
    const requests = [
      () => requestText("POST /v1/tasks/task_post", { secret, body: BODY }),
      () => requestText(`GET /v1/tasks/task_get/${taskId}`, { secret }),
      () => requestText("GET /v1/tasks/tasks_ready?limit=10", { secret }),
    ];
    return new Sender<number>({
      ...place,
      connections: 1,
      requestOf: () => requests[turn % requests.length]?.() ?? "",
      onEnd: (at, answer) => {
        this.#open--;
        this.#answers.add(performance.now() - at);
        const outcome = outcomeOf(answer);
        if (outcome !== "ok") return countUp(this.#bad, outcome);
        taskId = TASK_ID.exec(answer?.body.toString("latin1", 0, 600) ?? "")?.[1] ?? taskId;
        turn++;
      },
    });
  }
}

/** Honest accounts in a process of their own. */
export class Honest extends helperProcess(import.meta, Accounts) {}
