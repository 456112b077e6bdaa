import { TYPE_NAME } from "../domain/lease/worker.ts";
import { flags, type Argument } from "./arguments.ts";
import { UsageError } from "./failure.ts";

/** The flag `--type`, by which a worker names each type once; refuses when there is none. */
export function typeFlag(description: string): Argument<readonly string[]> {
  const types = flags(TYPE_NAME, `${description}; at least one, may be repeated`);
  return {
    ...types,
    read(texts, shown) {
      const given = types.read(texts, shown);
      if (given === null)
        throw new UsageError("give each type that it may claim, with --type TYPE");
      return [...new Set(given)];
    },
  };
}
