import type { ShownBody, ShownOperation, ShownParameter } from "./shown-document.ts";

/** The command that asks for an operation, with the document's own examples. */
export function curlOf(method: string, path: string, operation: ShownOperation): string {
  const { parameters = [], requestBody } = operation;
  const verb = method.toUpperCase();
  const body = exampleBody(Object.values(requestBody?.content ?? {})[0]);
  const isImplied = verb === "GET" || (verb === "POST" && body !== null);
  return [
    `curl ${isImplied ? "" : `-X ${verb} `}"$URL${doubleQuoted(filledPath(path, parameters))}"`,
    ...credentials(operation),
    ...(body === null ? [] : ["-H 'Content-Type: application/json'", `-d ${singleQuoted(body)}`]),
  ].join(" \\\n  ");
}

function filledPath(path: string, parameters: readonly ShownParameter[]): string {
  const inPath = parameters.filter((parameter) => parameter.in === "path");
  return inPath.reduce((filled, { name, example = name.toUpperCase() }) => {
    return filled.replace(`{${name}}`, () => encodeURIComponent(String(example)));
  }, path);
}

function exampleBody(body: ShownBody | undefined): string | null {
  if (body === undefined) return null;
  const [example] = Object.values(body.examples ?? {});
  if (example === undefined || !("value" in example)) return "{}";
  return JSON.stringify(example.value);
}

function credentials({ security }: ShownOperation): readonly string[] {
  const schemes = new Set(security.flatMap((each) => Object.keys(each)));
  if (schemes.has("bearer")) return ['-H "Authorization: Bearer $KEY"'];
  if (schemes.has("metrics")) return ['-H "Authorization: Bearer $METRICS_TOKEN"'];
  if (schemes.has("worker")) return ['-H "Authorization: Bearer $TOKEN"'];
  if (!schemes.has("session")) return [];
  return ['-b "$COOKIE"', "-H 'X-Requested-With: postbackd'", '-H "Origin: $URL"'];
}

function doubleQuoted(text: string): string {
  return text.replaceAll(/["$`\\]/g, String.raw`\$&`);
}

function singleQuoted(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
