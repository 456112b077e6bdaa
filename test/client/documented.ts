/** Operations that the client does not have: for sessions, the operator and workers. */
const OTHERS = /^\w+ \/(?:v1\/(?:operator|worker|session)|metrics$)/;

export interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, DocumentOperation>>>>;
  readonly components: {
    readonly examples: Readonly<
      Record<string, { readonly value: { readonly status_code: number } }>
    >;
  };
}

export interface DocumentOperation {
  readonly responses: Readonly<Record<string, DocumentAnswer>>;
}

interface DocumentAnswer {
  readonly content?: Readonly<
    Record<string, { readonly examples?: Readonly<Record<string, { readonly $ref?: string }>> }>
  >;
}

/** An error response of an operation in the document. */
export interface DocumentedError {
  readonly status: number;
  readonly code: number;
  readonly body: string;
}

export function documentedErrors(
  { components }: Document,
  { responses }: DocumentOperation,
): readonly DocumentedError[] {
  return Object.entries(responses).flatMap(([status, { content }]) => {
    if (Number(status) < 400) return [];
    const examples = Object.values(content?.["application/json"]?.examples ?? {});
    return examples.flatMap(({ $ref = "" }) => {
      const { value } = components.examples[$ref.split("/").at(-1) ?? ""] ?? {};
      if (value === undefined) return [];
      return [{ status: Number(status), code: value.status_code, body: JSON.stringify(value) }];
    });
  });
}

/** The operations of a daemon's document that the client must have. */
export async function documentOf(url: string) {
  // The tests check its fields.
  const document = (await (await fetch(`${url}/openapi.json`)).json()) as Document;
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => {
      return { name: `${method.toUpperCase()} ${path}`, operation };
    }),
  );
  const own = operations.filter(({ name }) => !OTHERS.test(name) && !name.startsWith("HEAD "));
  return { document, own };
}
