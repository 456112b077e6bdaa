/** What the store takes and gives about what an operator erases; re-exported by store.ts. */

export interface ErasureStore {
  /** Erases a task of any account with all that belongs to it, in whatever state it is. */
  eraseTask(order: TaskErasure): Promise<"erased" | "running" | "to be sent" | "unknown">;
}

export interface TaskErasure {
  readonly id: string;
  /** True to erase it also while a webhook of it is still to be sent, which is then sent no more. */
  readonly hasWebhooks: boolean;
}
