interface TypesText {
  readonly typesText: string;
}

/** A worker's row, in which its types are the text of a JSON array, with the types as a list. */
export function withTypes<Row extends TypesText>({ typesText, ...row }: Row) {
  const types: unknown = JSON.parse(typesText);
  if (Array.isArray(types) && types.every((type) => typeof type === "string")) {
    return { ...row, types };
  }
  throw new Error(`the database holds a worker with types that are no list: ${typesText}`);
}
