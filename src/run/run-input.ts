import type { RunRequest } from "./runner.ts";

/**
 * The text that a command reads and a service is posted (contract §6): the task as one line of JSON, without a line
 * break. The input is spliced in as text, so that numbers keep every digit.
 */
export function toRunInput({ id, type, tag, marketplace, inputText }: RunRequest): string {
  const head = JSON.stringify({ id, type, tag, marketplace }).slice(0, -1);
  // A line break in JSON text can only be white space between tokens: inside a string it would be an escape.
  return `${head},"input":${inputText.replace(/[\r\n]+/g, " ")}}`;
}
