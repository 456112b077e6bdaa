import type { Connection } from "./machine/connection.ts";

/** Prepares those of the statements that are used, when they first are: most never are. */
export function prepareEach<Row, Name extends string>(
  connection: Connection,
  statements: Readonly<Record<Name, string>>,
) {
  const prepared = new Map<Name, ReturnType<typeof prepare>>();
  const prepare = (name: Name) => connection.prepare<[object], Row>(statements[name]);
  return (name: Name): ReturnType<typeof prepare> => {
    const known = prepared.get(name) ?? prepare(name);
    prepared.set(name, known);
    return known;
  };
}
