/** The path of the reference. It stands in a file without imports, because a start loads it before the rest. */
export const REFERENCE_PATH = "/docs";

const TEXT = Symbol("markup");

/** HTML that is safe to send: every text in it is escaped. Its key is a symbol, so no parsed JSON is a Markup. */
export interface Markup {
  readonly [TEXT]: string;
}

/** A part of a page: markup is sent unchanged, text is escaped, undefined and false add nothing. */
export type Piece = Markup | string | false | undefined | readonly Piece[];

/** Makes markup of a template: its own text is trusted, the pieces in it are escaped. */
export function markup(texts: TemplateStringsArray, ...pieces: readonly Piece[]): Markup {
  return { [TEXT]: texts.map((text, at) => text + textOf(pieces[at])).join("") };
}

/** Pieces one after the other, with markup between them. */
export function joined(pieces: readonly Piece[], between: Piece): Piece {
  return pieces.flatMap((piece, at) => (at === 0 ? [piece] : [between, piece]));
}

export function textOf(piece: Piece): string {
  if (piece === undefined || piece === false) return "";
  if (typeof piece === "string") return escaped(piece);
  return TEXT in piece ? piece[TEXT] : piece.map(textOf).join("");
}

function escaped(text: string): string {
  return text.replaceAll(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const CODE = /`([^`]+)`/;
const EMPHASIS = /(?<=^|\s)_([^_]+)_(?=\s|$)/;

/** A line of the document, whose Markdown is of two kinds: `code` and _emphasis_. */
export function line(text = ""): Piece {
  return text.split(CODE).map((part, at) => {
    if (at % 2 === 1) return markup`<code>${part}</code>`;
    return part.split(EMPHASIS).map((each, index) => {
      return index % 2 === 1 ? markup`<em>${each}</em>` : each;
    });
  });
}

/** Several lines of the document: lines that begin with a dash are a list. */
export function prose(text = ""): Piece {
  const { items = [], rest = [] } = Object.groupBy(text.split("\n"), (each) =>
    each.startsWith("- ") ? "items" : "rest",
  );
  const list = items.map((each) => markup`<li>${line(each.slice(2))}</li>`);
  return [
    rest.join("") !== "" && markup`<p>${line(rest.join(" "))}</p>\n`,
    list.length > 0 && markup`<ul>${list}</ul>\n`,
  ];
}
