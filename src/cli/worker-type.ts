import { TYPE_NAME } from "../domain/lease/worker.ts";
import { valuesOf } from "./arguments.ts";
import type { Arguments } from "./arguments.ts";
import { UsageError } from "./failure.ts";

/** The types that `--type` gives, each once; throws a {@link UsageError} where there is none, or one that is none. */
export function typesOf(args: Arguments): readonly string[] {
  const types = valuesOf(args, "type", TYPE_NAME);
  if (types === null) throw new UsageError("give each type that it may claim, with --type TYPE");
  return [...new Set(types)];
}
