import { type Offload, compactJson } from "../domain/json/json.ts";
import { parseCommandOutput } from "./command-output.ts";
import type { RunResult } from "./runner.ts";

interface ServiceBody {
  readonly body: Uint8Array;
  readonly bytesMax: number;
}

interface ServiceResult {
  readonly result: RunResult;
  readonly isText: boolean;
}

/** Reads the body of a service's response by the rule for a command's stdout, see {@link parseCommandOutput}. */
function parseServiceBody({ body, bytesMax }: ServiceBody): ServiceResult {
  const result = parseCommandOutput(body, bytesMax);
  const mayBeText = result.kind === "result" && result.resultText.startsWith('"');
  return { result, isText: mayBeText && compactJson(body).kind === "fault" };
}

/** Parses of services' answers that may take long: bytes in, plain data out. */
export const RESULT_PARSES = { serviceBody: parseServiceBody };

export type ResultParser = Offload<typeof RESULT_PARSES>;

// The same limit as for bodies of requests, see http/long-bodies.ts.
const SHORT_BYTES_MAX = 64 * 1024;

/** Parses a short body here, and a long one in the parser's thread. */
export async function parseServiceAnswer(
  body: Uint8Array,
  { bytesMax, parser, owner }: ServiceParsing,
): Promise<ServiceResult> {
  const args = { body, bytesMax };
  if (body.length <= SHORT_BYTES_MAX) return parseServiceBody(args);
  return parser.run("serviceBody", args, { owner, bytes: body.length, isPatient: true });
}

export interface ServiceParsing {
  readonly bytesMax: number;
  readonly parser: ResultParser;
  readonly owner: string;
}
