import type { Offload } from "../domain/offload.ts";
import { parseBeats, parseCompletions, parseFailures, parseReleases } from "./lease-bodies.ts";
import { parsePostedTasks, type PostedBody } from "./posted-tasks.ts";

/** Bodies that may take long to parse, by their content: bytes in, plain data out. */
export const BODY_PARSES = {
  postedTasks({ ids, ...body }: PostedBody & { readonly ids: readonly string[] }) {
    const left = ids.values();
    return parsePostedTasks(body, () => {
      const { value } = left.next();
      if (value === undefined) throw new Error("there are more tasks than ids");
      return value;
    });
  },
  completions: parseCompletions,
  failures: parseFailures,
  beats: parseBeats,
  releases: parseReleases,
};

type BodyParses = typeof BODY_PARSES;

/** Parses bodies that may take long, elsewhere. */
export type BodyParser = Offload<BodyParses>;

// The worst of so many bytes, names that are all different, takes some 4 ms (2026-11).
const SHORT_BYTES_MAX = 64 * 1024;

/** True for a body that would hold up the event loop. */
export function isLong(bytes: Uint8Array): boolean {
  return bytes.length > SHORT_BYTES_MAX;
}

/** Parses a body here if it is short, else where it holds up nobody. */
export async function parseLong<Name extends keyof BodyParses>(
  name: Name,
  args: Parameters<BodyParses[Name]>[0],
  { parser, owner }: { readonly parser: BodyParser; readonly owner: string },
): Promise<ReturnType<BodyParses[Name]>> {
  const { bytes } = args;
  if (isLong(bytes)) return parser.run(name, args, { owner, bytes: bytes.length });
  // The compiler sees only that some parse takes some arguments and returns something.
  const parse = BODY_PARSES[name] as (given: unknown) => unknown;
  return parse(args) as ReturnType<BodyParses[Name]>;
}
