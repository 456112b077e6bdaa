import { entityTag } from "../domain/id.ts";
import type { ResponseHeaders } from "../domain/status.ts";
import type { AnswerHeaderDoc, Call, WholeAnswer } from "./operation.ts";

/** How the document shows the headers of an answer with a tag that caches may keep. */
export const CACHED_HEADERS: Readonly<Record<string, AnswerHeaderDoc>> = {
  ETag: { description: "Changes when the answer does.", isAlways: true },
  "Cache-Control": { description: "How long it may be kept without asking.", isAlways: true },
};

/** True when `If-None-Match` names the tag, or everything (RFC 9110 §13.1.2). */
function isKnownToClient(call: Pick<Call, "headers">, tag: string): boolean {
  const listed = call.headers("if-none-match").flatMap((line) => line.split(","));
  return listed
    .map((each) => each.trim().replace(/^W\//, ""))
    .some((each) => each === tag || each === "*");
}

/** The answer with its tag; 304 and no body for a client that already has it. */
export function withEntityTag(
  call: Pick<Call, "headers">,
  answer: WholeAnswer,
  tag = entityTag(answer.bytes ?? answer.text),
): WholeAnswer {
  const headers = { ...answer.headers, etag: tag };
  if (isKnownToClient(call, tag)) return { status: 304, text: "", headers };
  return { ...answer, headers };
}

/**
 * An answer that never changes: its bytes and its tag are made once, at the first request, and every answer shares
 * them.
 */
export function constantAnswer(
  makeText: () => string | Promise<string>,
  headers: ResponseHeaders,
): (call: Pick<Call, "headers">) => Promise<WholeAnswer> {
  let made: Promise<{ readonly bytes: Uint8Array; readonly tag: string }> | null = null;
  const make = async () => {
    const bytes = Buffer.from(await makeText());
    return { bytes, tag: entityTag(bytes) };
  };
  const makeOnce = () =>
    (made ??= make().catch((error: unknown) => {
      // The next request tries again.
      made = null;
      throw error;
    }));
  return async (call) => {
    const { bytes, tag } = await makeOnce();
    return withEntityTag(call, { status: 200, text: "", bytes, headers }, tag);
  };
}
