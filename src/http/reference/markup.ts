const TEXT = Symbol("markup");

/** HTML that is safe to send: every text in it was escaped. No JSON can pass for it, because its key is a symbol. */
export interface Markup {
  readonly [TEXT]: string;
}

/** A part of a page: markup stays as it is, text is escaped, null is nothing. */
export type Piece = Markup | string | number | null | readonly Piece[];

/** Makes markup of a template's own text, which is trusted, and the pieces in it, which are not. */
export function markup(texts: TemplateStringsArray, ...pieces: readonly Piece[]): Markup {
  const parts = texts.map((text, at) => text + textOf(pieces[at] ?? null));
  return { [TEXT]: parts.join("") };
}

/** Pieces one after the other, with markup between them. */
export function joined(pieces: readonly Piece[], between: Piece): Piece {
  return pieces.flatMap((piece, at) => (at === 0 ? [piece] : [between, piece]));
}

export function textOf(piece: Piece): string {
  if (piece === null) return "";
  if (typeof piece === "string" || typeof piece === "number") return escaped(String(piece));
  if (TEXT in piece) return piece[TEXT];
  return piece.map(textOf).join("");
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => ENTITIES[character] ?? "");
}

const CODE = /`([^`]+)`/;
const EMPHASIS = /(?<=^|\s)_([^_]+)_(?=\s|$)/;

/** A line of the document, whose Markdown is of two kinds: `code` and _emphasis_. */
export function line(text: string): Piece {
  return text.split(CODE).map((part, at) => {
    if (at % 2 === 1) return markup`<code>${part}</code>`;
    return part.split(EMPHASIS).map((each, index) => {
      return index % 2 === 1 ? markup`<em>${each}</em>` : each;
    });
  });
}

/** Several lines of the document: those that begin with a dash are a list. */
export function prose(text: string): Piece {
  const lines = text.split("\n");
  const items = lines.filter((each) => each.startsWith("- "));
  const rest = lines.filter((each) => !each.startsWith("- ")).join(" ");
  return [
    rest === "" ? null : markup`<p>${line(rest)}</p>\n`,
    items.length === 0
      ? null
      : markup`<ul>${items.map((each) => markup`<li>${line(each.slice(2))}</li>`)}</ul>\n`,
  ];
}
