/** The parts of `/openapi.json` that the reference shows, as `openapi/` makes them. */
export interface ShownDocument {
  readonly info: { readonly version: string; readonly description: string };
  readonly tags: readonly { readonly name: string; readonly description: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, ShownOperation>>>>;
  readonly components: {
    readonly securitySchemes: Readonly<Record<string, { readonly description: string }>>;
    readonly schemas: Readonly<Record<string, ShownSchema>>;
    readonly headers: Readonly<Record<string, ShownHeader>>;
    readonly examples: Readonly<
      Record<string, { readonly summary: string; readonly value: unknown }>
    >;
  };
}

export interface ShownOperation {
  readonly operationId: string;
  readonly tags: readonly string[];
  readonly summary: string;
  readonly description: string;
  readonly security: readonly Readonly<Record<string, unknown>>[];
  readonly parameters?: readonly ShownParameter[];
  readonly requestBody?: ShownContent & { readonly required: boolean };
  readonly responses: Readonly<Record<string, ShownAnswer>>;
  /** By name, expression and method. */
  readonly callbacks?: Readonly<
    Record<string, Readonly<Record<string, Readonly<Record<string, ShownOperation>>>>>
  >;
}

export interface ShownParameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description: string;
  readonly schema: ShownSchema;
  readonly example?: unknown;
}

export interface ShownContent {
  readonly content?: Readonly<Record<string, ShownBody>>;
}

export interface ShownBody {
  readonly schema: ShownSchema;
  readonly examples?: Readonly<Record<string, ShownExample>>;
}

export type ShownExample = Reference | { readonly value: unknown };

export interface ShownAnswer extends ShownContent {
  readonly description: string;
  readonly headers?: Readonly<Record<string, Reference | ShownHeader>>;
}

export interface ShownHeader {
  readonly description: string;
  readonly schema: ShownSchema;
}

export interface Reference {
  readonly $ref: string;
}

/** JSON Schema, as far as the document uses it. */
export interface ShownSchema {
  readonly $ref?: string;
  readonly type?: string | readonly string[];
  readonly description?: string;
  readonly properties?: Readonly<Record<string, ShownSchema>>;
  readonly required?: readonly string[];
  readonly additionalProperties?: boolean | ShownSchema;
  readonly items?: ShownSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly anyOf?: readonly ShownSchema[];
  readonly allOf?: readonly ShownSchema[];
  readonly format?: string;
  readonly pattern?: string;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly minItems?: number;
  readonly maxItems?: number;
  readonly examples?: readonly unknown[];
}

/** The last part of a reference: the name of what it stands for. */
export function nameOf($ref: string): string {
  return $ref.slice($ref.lastIndexOf("/") + 1);
}
