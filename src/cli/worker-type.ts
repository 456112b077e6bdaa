import { isTypeName, TYPE_NAME_RULE } from "../domain/lease/worker.ts";
import { quote } from "../domain/rule.ts";
import type { Arguments } from "./arguments.ts";
import { UsageError } from "./failure.ts";

/** The types that `--type` gives, each once; throws a {@link UsageError} where there is none, or one that is none. */
export function typesOf(args: Arguments): readonly string[] {
  const types = [...new Set(args.get("type"))];
  if (types.length === 0)
    throw new UsageError("give each type that it may claim, with --type TYPE");
  const wrong = types.find((type) => !isTypeName(type));
  if (wrong === undefined) return types;
  throw new UsageError(`a type's name is ${TYPE_NAME_RULE}, not ${quote(wrong)}`);
}
