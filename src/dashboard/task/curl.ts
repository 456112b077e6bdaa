/** Makes commands for a POSIX shell. */

type HeaderLine = readonly [name: string, value: string];

/** The place of a body. */
export interface BodySource {
  /** Scheme, host and port of the daemon. */
  readonly origin: string;
  readonly taskId: string;
}

/** A request exactly as an attempt sent it. */
export interface SentRequest extends BodySource {
  readonly method: string;
  readonly url: string;
  readonly headers: readonly HeaderLine[];
  /** Null: there is none, or it is too long to be at hand; `hasBody` says which. */
  readonly body: string | null;
  readonly hasBody: boolean;
}

/** How many bytes of a body fit on the command line. */
const INLINE_BYTES_MAX = 8192;

/** The request as a curl command. A body that is long, or that a terminal would change, is saved to a file first. */
export function curlCommand(request: SentRequest): string {
  const { method, url, headers, hasBody } = request;
  const lines = [
    // The options keep curl from reading the URL itself: it expands sets in brackets and braces, and removes dots.
    `curl -i --globoff --path-as-is${method === "GET" ? "" : ` -X ${shellQuoted(method)}`} ${shellQuoted(url)}`,
    ...headers.filter(isOurs).map(([name, value]) => `-H ${shellQuoted(headerText(name, value))}`),
    // curl sends these by itself, and the attempt did not.
    "-H 'Accept:' -H 'Expect:'",
    ...(hasBody ? [dataLine(request)] : []),
  ];
  const command = lines.join(" \\\n  ");
  return hasBody && !isInline(request.body)
    ? `${saveBodyCommand(request)} &&\n${command}`
    : command;
}

/** Saves the signed bytes of a task's postback, which are the answer of task_get. */
export function saveBodyCommand(source: BodySource): string {
  const url = `${source.origin}/v1/tasks/task_get/${encodeURIComponent(source.taskId)}?collect=false`;
  return `curl -sSf -H "Authorization: Bearer $API_KEY" ${shellQuoted(url)} -o ${shellQuoted(bodyFileOf(source))}`;
}

/** The file that {@link saveBodyCommand} writes. */
export function bodyFileOf({ taskId }: Pick<BodySource, "taskId">): string {
  // A task's id is a UUID; other characters could form a path.
  return `body-${taskId.replaceAll(/[^\w-]/g, "")}.json`;
}

/** A text as one word of a shell. */
export function shellQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

function dataLine(request: SentRequest): string {
  const { body } = request;
  if (body === null || !isInline(body)) {
    return `--data-binary ${shellQuoted(`@${bodyFileOf(request)}`)}`;
  }
  // A body that begins with @ would be read as the name of a file.
  return body.startsWith("@")
    ? `--data-raw ${shellQuoted(body)}`
    : `--data-binary ${shellQuoted(body)}`;
}

// Terminals interpret pasted control characters, and no command line holds a NUL.
const TYPED_KEYS = /[\0-\t\v-\u001f\u007f-\u009f]/;

function isInline(body: string | null): boolean {
  if (body === null || TYPED_KEYS.test(body)) return false;
  return new TextEncoder().encode(body).length <= INLINE_BYTES_MAX;
}

const CURLS_OWN: ReadonlySet<string> = new Set(["host", "content-length", "connection"]);

function isOurs([name]: HeaderLine): boolean {
  return !CURLS_OWN.has(name.toLowerCase());
}

// curl leaves out a header that ends at its colon, and sends an empty one for a header that ends with a semicolon.
function headerText(name: string, value: string): string {
  return value === "" ? `${name};` : `${name}: ${value}`;
}
