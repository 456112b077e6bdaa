const QUOTED_OR_COMMENT = /'[^']*'|"[^"]*"|--.*|\/\*[^]*?\*\//;

/** Rewrites the parameters of a statement; literals, quoted names and comments stay as they are. */
export function rewriteParameters(
  sql: string,
  parameter: RegExp,
  rewrite: (parameter: string) => string,
): string {
  const parts = new RegExp(`${QUOTED_OR_COMMENT.source}|(${parameter.source})`, "g");
  return sql.replaceAll(parts, (part, found?: string) =>
    found === undefined ? part : rewrite(found),
  );
}
