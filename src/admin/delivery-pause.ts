import type { DeliveryPause as PauseShown } from "../api/delivery.ts";
import { timeText } from "../domain/clock/time.ts";
import type { DeliveryPause, PauseScope } from "../store/store.ts";
import type { AdminContext } from "./context.ts";

/** The deliveries that a pause covers; null is all accounts, or all hosts. */
export interface PausedDeliveries {
  readonly scope: PauseScope;
  readonly login: string | null;
}

/** Pauses deliveries. Returns how many wait, and what the store did. */
export async function pauseDeliveries(
  { scope, login }: PausedDeliveries,
  by: Pick<DeliveryPause, "pausedBy" | "reason">,
  { store, now, audit }: AdminContext<"pauseDeliveries" | "countScheduled">,
) {
  const details = { host: scope.host, reason: by.reason };
  const entry = audit("delivery.paused", login, details);
  const outcome = await store.pauseDeliveries({ ...scope, ...by, since: now, audit: entry });
  return { outcome, waiting: await store.countScheduled(scope) };
}

/** Ends the pause of exactly these deliveries. Returns how many waited and all other pauses; null if it does not exist. */
export async function resumeDeliveries(
  { scope, login }: PausedDeliveries,
  { store, audit }: AdminContext<"resumeDeliveries" | "listDeliveryPauses" | "countScheduled">,
) {
  // Counted before the resume: afterwards a running daemon sends them while they are counted.
  const waiting = await store.countScheduled(scope);
  const entry = audit("delivery.resumed", login, { host: scope.host });
  if (!(await store.resumeDeliveries({ ...scope, audit: entry }))) return null;
  return { left: await store.listDeliveryPauses(), waiting };
}

/** Lists all pauses with the webhooks that wait, counted for the first `countedMax` of them. */
export async function listPauses(
  { store }: Pick<AdminContext<"listDeliveryPauses" | "countScheduled">, "store">,
  countedMax: number,
): Promise<readonly PauseShown[]> {
  const shown: PauseShown[] = [];
  // One after the other: a count may take its time, and the reads of others come in between.
  for (const [i, pause] of (await store.listDeliveryPauses()).entries()) {
    const waiting = i < countedMax ? await store.countScheduled(pause) : null;
    shown.push({ ...pauseDocument(pause), waiting });
  }
  return shown;
}

export function pauseDocument({ login, host, since, reason, pausedBy }: DeliveryPause) {
  return { login, host, since: timeText(since), reason, paused_by: pausedBy };
}
