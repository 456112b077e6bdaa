/** What the store takes and gives about what an operator erases; re-exported by store.ts. */

export interface ErasureStore {
  /** Erases a task of any account with all that belongs to it, in whatever state it is. */
  eraseTask(order: TaskErasure): Promise<"erased" | "running" | "to be sent" | "unknown">;
  /**
   * Erases a part of what there is of a disabled account, in the end the account itself; to be called until it is `done`.
   * Its numbers stay in those of all accounts together. What still runs ends without a trace.
   */
  eraseAccountPart(order: { login: string }): Promise<ErasedPart>;
}

export interface TaskErasure {
  readonly id: string;
  /** True to erase it also while a webhook of it is still to be sent, which is then sent no more. */
  readonly hasWebhooks: boolean;
}

export type ErasedPart =
  | { readonly kind: "more"; readonly tasks: number }
  | { readonly kind: "done" }
  /** Nothing is erased of it. */
  | { readonly kind: "unknown" | "enabled" };
