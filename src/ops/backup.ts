import type { TellProgress } from "../domain/log.ts";
import { checkCopy, CopyError, type SoundCopy } from "../store/sqlite/copy-check.ts";

export { giveWay } from "../store/sqlite/machine/priority.ts";
export type { SoundCopy } from "../store/sqlite/copy-check.ts";
export type { RestoredDeliveries, Restored } from "../store/sqlite/restore.ts";
export type { CopyDocument, CopyFacts } from "../store/sqlite/copy-facts.ts";

/** Whether a copy is whole, and if not, why: a sentence without a full stop. */
export type CopyVerdict =
  | { readonly kind: "whole"; readonly copy: SoundCopy }
  | { readonly kind: "refused"; readonly reason: string };

/** Checks a copy, and tells how far it is; see {@link checkCopy}. */
export function judgeCopy(file: string, tell: TellProgress = () => {}): CopyVerdict {
  try {
    return { kind: "whole", copy: checkCopy(file, { check() {}, tell }) };
  } catch (error) {
    if (!(error instanceof CopyError)) throw error;
    return { kind: "refused", reason: error.message };
  }
}
