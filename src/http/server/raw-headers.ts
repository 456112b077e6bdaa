import type { IncomingMessage } from "node:http";

/**
 * Every value of a header, one for each of its lines. Node's own `headers` keeps the first of two lines of a header
 * such as Authorization, and silently drops the other.
 */
export function headerValues(
  { rawHeaders }: Pick<IncomingMessage, "rawHeaders">,
  name: string,
): readonly string[] {
  const values: string[] = [];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const [each, value] = [rawHeaders[i], rawHeaders[i + 1]];
    if (each?.length !== name.length || value === undefined) continue;
    if (each.toLowerCase() === name) values.push(value);
  }
  return values;
}
