import type { LeaseEnd, LeaseEnds, TaskPost } from "../store.ts";
import type { SubmitOptions } from "./group-commit.ts";

/** The weights of writes in a batch and in the backlog: about the number of rows that they write. */

/** The most weight of a batch. */
export const BATCH_WEIGHT_MAX = 256;

/** A client's write: it can come again. */
export const CLIENT_WRITE: SubmitOptions = { weight: 1, mayShed: true };
// It holds up every other write, and happens at a start or when the machine's clock was set.
export const WHOLE_TABLES: SubmitOptions = { weight: BATCH_WEIGHT_MAX, mayShed: false };
// It counts the rows that it writes and those that it reads before: as much as half a batch.
export const STEP_WRITE: SubmitOptions = { weight: BATCH_WEIGHT_MAX / 2, mayShed: false };

/** A write of so many rows that is never refused. */
export function rows(weight: number): SubmitOptions {
  return { weight, mayShed: false };
}

// A page of text weighs as much as a row, so that the limits of batch and backlog bound their bytes too.
function weightOf(task: { readonly dataText: string; readonly inputText: string | null }): number {
  return 1 + pagesOf(task.dataText, task.inputText ?? "");
}

/** How much a post weighs. */
export function weightOfPost({ accepted, refused, idempotency }: TaskPost): SubmitOptions {
  let weight = idempotency === null ? 0 : 1 + pagesOf(idempotency.answerText);
  for (const task of accepted) weight += weightOf(task);
  for (const task of refused) weight += weightOf(task);
  return { weight, mayShed: true };
}

/** How much the ends of leases weigh. */
export function weightOfEnds({ ends }: LeaseEnds): SubmitOptions {
  return rows(ends.reduce((sum, end) => sum + weightOfEnd(end), 0));
}

function weightOfEnd({ sequel }: LeaseEnd): number {
  return (
    1 + (sequel.kind === "finish" ? pagesOf(sequel.resultText ?? "", sequel.errorText ?? "") : 0)
  );
}

function pagesOf(...texts: readonly string[]): number {
  return Math.floor(texts.reduce((sum, text) => sum + text.length, 0) / 4096);
}
