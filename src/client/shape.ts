/** Checks of the fields that the client reads of a response, by their names. */
export type Shape = Readonly<Record<string, (value: unknown) => boolean>>;

export function isObject(value: unknown): boolean {
  return typeof value === "object" && value !== null;
}

export function isText(value: unknown): boolean {
  return typeof value === "string";
}

export function isNumber(value: unknown): boolean {
  return typeof value === "number";
}

export function isCursor(value: unknown): boolean {
  return value === null || isText(value);
}

/** The check of a list whose items pass. */
export function listOf(isItem: (value: unknown) => boolean, length?: number): Shape[string] {
  return (value) =>
    Array.isArray(value) &&
    value.every(isItem) &&
    (length === undefined || value.length === length);
}

/** True for a task with the fields that the client itself reads. */
export function isTask(value: unknown): boolean {
  const { id, state, status_message: message, error }: ReadTask = Object(value);
  return isText(id) && isText(state) && isText(message) && isObject(error ?? {});
}

interface ReadTask {
  readonly id?: unknown;
  readonly state?: unknown;
  readonly status_message?: unknown;
  readonly error?: unknown;
}

export const ONE_TASK: Shape = { tasks: listOf(isTask, 1) };
export const PAGE_OF_TASKS: Shape = { tasks: listOf(isObject), next_cursor: isCursor };

export const DELIVERIES: Shape = { deliveries: listOf(isObject) };
