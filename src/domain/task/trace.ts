/** The trace of the client (W3C Trace Context), passed on as it came: the daemon records no spans of its own. */
export interface Trace {
  readonly traceparent: string;
  /** Null if the request has no `tracestate`. */
  readonly tracestate: string | null;
}

/** The length that the recommendation requires to be passed on; anything longer is not stored. */
const TRACE_LENGTH_MAX = 512;

const MEMBERS_MAX = 32;

// §3.2.2. Later versions may have more fields behind these, and version ff is never one.
const TRACEPARENT =
  /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:$|-[!-~]*$)/;
const FIRST_VERSION_LENGTH = 55;

// §3.3.1.3: a key, also with a tenant and a vendor, and a value of printable characters.
const MEMBER =
  /^(?:[a-z0-9][a-z0-9_\-*/]{0,240}@)?[a-z0-9][a-z0-9_\-*/]{0,255}=[ -+\--<>-~]{0,255}[!-+\--<>-~]$/;

/** Each header with all its lines. Null without a valid traceparent; a tracestate that is not valid is left out. */
export function parseTrace(
  traceparents: readonly string[],
  tracestates: readonly string[],
): Trace | null {
  const [traceparent, ...others] = traceparents;
  if (traceparent === undefined || others.length > 0 || !isTraceparent(traceparent)) return null;
  return { traceparent, tracestate: parseTracestate(tracestates) };
}

function isTraceparent(text: string): boolean {
  if (text.length > TRACE_LENGTH_MAX || !TRACEPARENT.test(text)) return false;
  return !text.startsWith("00") || text.length === FIRST_VERSION_LENGTH;
}

function parseTracestate(lines: readonly string[]): string | null {
  const text = lines.join(",");
  if (text.length > TRACE_LENGTH_MAX) return null;
  // §3.3.1.1: empty members are allowed.
  const members = text.split(",").map((member) => member.replaceAll(/^[ \t]+|[ \t]+$/g, ""));
  const filled = members.filter((member) => member !== "");
  if (filled.length === 0 || filled.length > MEMBERS_MAX) return null;
  return filled.every((member) => MEMBER.test(member)) ? filled.join(",") : null;
}

export function traceText(trace: Trace | null): string | null {
  return trace === null ? null : JSON.stringify(trace);
}

/** The headers of a stored trace, by their names in lower case; empty without a readable trace. */
export function traceHeaders(text: string | null): Readonly<Record<string, string>> {
  const trace = readTrace(text);
  if (trace === null) return {};
  const { traceparent, tracestate } = trace;
  return tracestate === null ? { traceparent } : { traceparent, tracestate };
}

/** A stored trace, judged as when it was posted: what is in the file goes into headers and environments. */
export function readTrace(text: string | null): Trace | null {
  if (text === null) return null;
  try {
    const { traceparent, tracestate }: Record<string, unknown> = Object(JSON.parse(text));
    return typeof traceparent === "string"
      ? parseTrace([traceparent], typeof tracestate === "string" ? [tracestate] : [])
      : null;
  } catch {
    // Another program has written it.
    return null;
  }
}
