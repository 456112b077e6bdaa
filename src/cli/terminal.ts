import { styleText } from "node:util";

/** How texts for a person are laid out: wide as the terminal, and with styles where it shows them. */
export interface Layout {
  /** Columns of a line. */
  readonly width: number;
  readonly heading: (text: string) => string;
}

// Narrower, columns of names and their explanations no longer fit beside each other; wider, lines are hard to read.
const WIDTH = { min: 50, max: 110, elsewhere: 100 } as const;

/** For a pipe or a file: without styles, and as wide as a page. */
export const PLAIN: Layout = { width: WIDTH.elsewhere, heading: (text) => text };

/** The layout for this process's stdout. */
export function terminalLayout(): Layout {
  const { isTTY, columns } = process.stdout;
  if (!isTTY) return PLAIN;
  const width = Math.min(Math.max(columns, WIDTH.min), WIDTH.max);
  return { width, heading: hasStyles() ? (text) => styleText("bold", text) : PLAIN.heading };
}

/** Takes `--no-color` out of a command line, wherever it stands before `--`, and obeys it. */
export function takeNoColor(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf("--");
  const isOurs = (word: string, i: number): boolean =>
    word === "--no-color" && (end === -1 || i < end);
  if (argv.some(isOurs)) process.env["NO_COLOR"] = "1";
  return argv.filter((word, i) => !isOurs(word, i));
}

/** Breaks a text between words so that no line is longer than `width`, unless a word is. */
export function wrapped(text: string, width: number): readonly string[] {
  const lines: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    if (line !== "" && line.length + 1 + word.length > width) {
      lines.push(line);
      line = word;
    } else line = line === "" ? word : `${line} ${word}`;
  }
  return [...lines, line];
}

// https://no-color.org: any value but an empty one means no.
function hasStyles(): boolean {
  const { NO_COLOR: noColor = "", TERM: term } = process.env;
  return noColor === "" && term !== "dumb";
}
