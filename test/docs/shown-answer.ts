/** Every JSON value of a text, in order. */
export function jsonValues(text: string): readonly unknown[] {
  const values: unknown[] = [];
  let pending = "";
  for (const line of text.split("\n")) {
    pending += `${line}\n`;
    if (pending.trim() === "") continue;
    const value = tryParse(pending);
    if (value === undefined) continue;
    values.push(value);
    pending = "";
  }
  if (pending.trim() !== "") throw new Error(`This is not JSON: ${pending}`);
  return values;
}

function tryParse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/**
 * Pointers to where an answer is not as a document shows it. Fields that are not shown may be there; "…" stands for any
 * value but null.
 */
export function unlikeShown(shown: unknown, came: unknown, pointer: string): readonly string[] {
  if (shown === "…") return came === undefined || came === null ? [pointer] : [];
  if (Array.isArray(shown)) {
    if (!Array.isArray(came) || came.length !== shown.length) return [pointer];
    return shown.flatMap((each, at) => unlikeShown(each, came[at], `${pointer}/${at}`));
  }
  if (!isObject(shown)) return Object.is(shown, came) ? [] : [pointer];
  if (!isObject(came)) return [pointer];
  return Object.entries(shown).flatMap(([name, value]) =>
    unlikeShown(value, came[name], `${pointer}/${name}`),
  );
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
