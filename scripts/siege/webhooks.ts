import { setTimeout as sleep } from "node:timers/promises";

import { ANSWERS } from "./hosts.ts";
import { hostName } from "./name-server.ts";
import type { WebhookRule } from "./rows.ts";
import type { Target } from "./target.ts";

/** How long the other's webhooks took from completion to arrival; null for one that was refused or never came. */
export type WebhookLatencies = readonly (number | null)[];

const KNOWN_HOSTS = 10;
const EVERY_MS = 400;
const ARRIVED_MS_MAX = 150_000;
const [SHARED_BLOCK, KNOWN_BLOCK, NEW_BLOCK] = [10, 20, 21];

/** The host that an attacker and the other share. */
export const SHARED_HOST = hostName(0, SHARED_BLOCK);

/** Measures the other's webhooks, each to the host that a rule names, again and again. */
export function othersWebhooks(target: Target, { to }: WebhookRule, login: string) {
  let sent = 0;
  const nextHost = (): string => {
    const index = sent++;
    const known = hostName(index % KNOWN_HOSTS, KNOWN_BLOCK);
    return { new: hostName(index, NEW_BLOCK), known, shared: SHARED_HOST }[to];
  };
  /** Null when the daemon accepts no task, or is gone: its log and the other's own posts say why. */
  const post = async (): Promise<string | null> => {
    const url = target.hostUrl(nextHost(), ANSWERS);
    const task = { type: "echo", input: {}, postback_url: url };
    const [id] = await target.post(login, [task]).catch(() => []);
    return id ?? null;
  };
  /** Sends one every 400 ms, and waits for the last to arrive: 150 s at most. */
  return async (seconds: number): Promise<WebhookLatencies> => {
    const posted: (string | null)[] = [];
    const until = performance.now() + seconds * 1000;
    do {
      posted.push(await post());
      await sleep(EVERY_MS);
    } while (performance.now() < until);
    const ids = posted.filter((id) => id !== null);
    const refused = posted.filter((id) => id === null);
    return [...(await target.hosts.latencies(ids, ARRIVED_MS_MAX)), ...refused];
  };
}
