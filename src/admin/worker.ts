import type { NodeOverview, WorkerOverview } from "../api/node.ts";
import { WORKER_TOKEN_PREFIX } from "../domain/account/account.ts";
import { newWorkerToken } from "../domain/account/key.ts";
import { timeOrNull, timeText } from "../domain/clock/time.ts";
import type { NodeSummary, Worker } from "../store/store.ts";
import type { AdminContext } from "./context.ts";

/** Makes a worker's token, which is known only now. Returns null if an active worker has the name. */
export async function createWorker(
  { name, types }: { readonly name: string; readonly types: readonly string[] },
  { store, now, audit }: AdminContext<"createWorker">,
) {
  const { key: token, hash, lastFour } = newWorkerToken();
  const worker = { name, hash, lastFour, types, createdAt: now };
  const outcome = await store.createWorker({ ...worker, audit: audit("worker.created", name) });
  if (outcome === "exists") return null;
  const prefix = WORKER_TOKEN_PREFIX;
  return { name, token, prefix, last_four: lastFour, types, created_at: timeText(now) };
}

/** Revokes the worker of this name. Returns null if it does not exist. */
export async function revokeWorker(
  name: string,
  { store, now, audit }: AdminContext<"revokeWorker">,
): Promise<Worker | null> {
  return store.revokeWorker({ name, revokedAt: now, audit: audit("worker.revoked", name) });
}

export function workerDocument(worker: Worker): WorkerOverview {
  return {
    name: worker.name,
    types: worker.types,
    last_four: worker.lastFour,
    created_at: timeText(worker.createdAt),
    last_seen_at: timeOrNull(worker.lastSeenAt),
    revoked_at: timeOrNull(worker.revokedAt),
    leases: worker.leases,
  };
}

/** A daemon of a cluster; its own reports are some seconds old. */
export function nodeDocument({ facts, ...node }: NodeSummary): Omit<NodeOverview, "answers"> {
  return {
    id: node.id,
    name: node.name,
    version: node.version,
    url: facts?.url ?? null,
    joined_at: timeText(node.joinedAt),
    last_seen_at: timeText(node.lastSeenAt),
    ended_at: timeOrNull(node.endedAt),
    is_lost: node.isLost,
    roles: node.roles,
    running: facts?.running ?? null,
    sending: facts?.sending ?? null,
  };
}
