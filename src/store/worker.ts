import type { Audited } from "./audit.ts";

/** Remembers workers and their tokens. */
export interface WorkerStore {
  /** Keeps a worker's token; `exists` while an active one has the name. */
  createWorker(worker: NewWorker & Audited): Promise<"created" | "exists">;
  /** Lists all workers, by name; among revoked ones with the same name the newest first. */
  listWorkers(): Promise<readonly Worker[]>;
  /** Revokes the active worker of this name, or answers the one that was revoked last; null for an unknown name. */
  revokeWorker(change: { name: string; revokedAt: number } & Audited): Promise<Worker | null>;
  /** Notes when workers were last heard; a time never moves back. */
  touchWorkers(uses: readonly WorkerUse[]): Promise<void>;
  /** Finds the holder of a token. Reads what is committed now, by whichever process. */
  findWorkerHolder(tokenHash: string): Promise<WorkerHolder | null>;
}

/** The stored part of a new worker token, which never includes the token itself. */
export interface NewWorker {
  readonly name: string;
  readonly hash: string;
  readonly lastFour: string;
  /** The types whose tasks it may claim; at least one. */
  readonly types: readonly string[];
  readonly createdAt: number;
}

export interface Worker extends Omit<NewWorker, "hash"> {
  readonly workerId: number;
  readonly lastSeenAt: number | null;
  readonly revokedAt: number | null;
  /** The number of leases that it holds now. */
  readonly leases: number;
}

/** The holder of a token. */
export interface WorkerHolder {
  readonly workerId: number;
  readonly name: string;
  readonly types: readonly string[];
  readonly isRevoked: boolean;
}

export interface WorkerUse {
  readonly workerId: number;
  readonly seenAt: number;
}
