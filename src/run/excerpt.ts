/** How much of a service's answer a failed run shows. */
const EXCERPT_BYTES_MAX = 4096;
// How much of the answer is searched: some of it is struck out.
const LOOKED_AT_BYTES_MAX = 2 * EXCERPT_BYTES_MAX;

// Shorter ones are words such as "1" or "all", and striking them would spoil every text.
const SECRET_LENGTH_MIN = 4;

/**
 * The parts of the operator's configuration that a service's answers may repeat: header values, and the URL's query,
 * whole and in parts, as written and as decoded. Longest first.
 */
export function secretsOf(url: URL, headers: Readonly<Record<string, string>>): readonly string[] {
  const query = url.search.slice(1);
  const values = Object.values(headers);
  const found = [
    ...values,
    // The credentials after "Bearer" and "Basic".
    ...values.flatMap((value) => value.split(" ")),
    query,
    ...query.split("&").map((pair) => pair.slice(pair.indexOf("=") + 1)),
    ...url.searchParams.values(),
  ];
  return [...new Set(found)]
    .filter(({ length }) => length >= SECRET_LENGTH_MIN)
    .toSorted((left, right) => right.length - left.length);
}

/**
 * The beginning of a body as well-formed text of at most 4 KiB, for whoever posted the task. A service that fails may
 * show the request it got, as debug pages do: `secrets`, the longest of them first, are struck out. `body` should be
 * longer than the text that is shown, so that the limit cuts no secret in two and shows a part of it.
 */
export function excerptWithout(secrets: readonly string[], body: Uint8Array): string {
  let text = decodeStart(body.subarray(0, LOOKED_AT_BYTES_MAX));
  for (const secret of secrets) text = text.replaceAll(secret, "[hidden]");
  // The end may hold the beginning of a secret that goes on behind it.
  const [longest = ""] = secrets;
  if (body.length >= LOOKED_AT_BYTES_MAX) text = text.slice(0, -longest.length || undefined);
  const bytes = Buffer.from(text);
  return bytes.length <= EXCERPT_BYTES_MAX
    ? text.toWellFormed()
    : decodeStart(bytes.subarray(0, EXCERPT_BYTES_MAX));
}

// `stream` leaves out a character that the limit cuts in two, instead of showing it as broken.
function decodeStart(bytes: Uint8Array): string {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes, { stream: true });
}
