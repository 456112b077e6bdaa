import { setTimeout as sleep } from "node:timers/promises";

import { ANSWERS } from "./hosts.ts";
import { hostName } from "./name-server.ts";
import type { WebhookRule } from "./row.ts";
import { SHARED_HOST } from "./rows-deliveries.ts";
import type { Target } from "./target.ts";

/** How long the other's webhooks took from completion to arrival; null for one that was refused or never came. */
export type WebhookLatencies = readonly (number | null)[];

const KNOWN_HOSTS = 10;
const EVERY_MS = 400;
const ARRIVED_MS_MAX = 150_000;
const [KNOWN_BLOCK, NEW_BLOCK] = [20, 21];

/** The other's webhooks, each to the host that a rule names. */
export class OthersWebhooks {
  readonly #target: Target;
  readonly #rule: WebhookRule;
  readonly #login: string;
  #sent = 0;

  constructor(target: Target, rule: WebhookRule, login: string) {
    this.#target = target;
    this.#rule = rule;
    this.#login = login;
  }

  /** Sends one every 400 ms, and waits for the last to arrive: 150 s at most. */
  async measure(seconds: number): Promise<WebhookLatencies> {
    const ids: string[] = [];
    const refused: null[] = [];
    const until = performance.now() + seconds * 1000;
    do {
      const id = await this.#post();
      if (id === null) refused.push(id);
      else ids.push(id);
      await sleep(EVERY_MS);
    } while (performance.now() < until);
    return [...(await this.#target.hosts.latencies(ids, ARRIVED_MS_MAX)), ...refused];
  }

  /** Null when the daemon accepts no task, or is gone: its log and the other's own posts say why. */
  async #post(): Promise<string | null> {
    const task = { type: "echo", input: {}, postback_url: this.#nextUrl() };
    const posted = await this.#target.post(this.#login, [task]).catch(() => []);
    return posted[0] ?? null;
  }

  #nextUrl(): string {
    const index = this.#sent++;
    const hosts = {
      new: hostName(index, NEW_BLOCK),
      known: hostName(index % KNOWN_HOSTS, KNOWN_BLOCK),
      shared: SHARED_HOST,
    };
    return this.#target.hostUrl(hosts[this.#rule.to], ANSWERS);
  }
}
