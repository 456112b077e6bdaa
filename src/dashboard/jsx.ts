/** What JSX is compiled to: the build puts these two into every file that has some. */
export { Fragment, h } from "preact";
