//! Two hundred texts that would act, hide, turn text round or break a page, if a page did more than show
//! them.

/// What each text ends before it begins: an attribute, an element, a comment.
const BREAKOUTS: [&str; 5] = [
    "",
    "\"'>",
    "</textarea></pre></title>",
    "--></td></table>",
    "\\\"}]);",
];

const TEXTS: [&str; 37] = [
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "<svg onload=window.pwned=1>",
    "<svg><script>window.pwned=1</script></svg>",
    "<svg><animate onbegin=window.pwned=1 attributeName=x dur=1s>",
    "<iframe srcdoc=\"<script>parent.pwned=1</script>\"></iframe>",
    "<iframe src=javascript:parent.pwned=1>",
    "javascript:window.pwned=1",
    "<a href=\"javascript:window.pwned=1\" id=clicked>x</a>",
    "<details open ontoggle=window.pwned=1>",
    "<math><a xlink:href=\"javascript:window.pwned=1\">x</a></math>",
    "<body onload=window.pwned=1>",
    "<input autofocus onfocus=window.pwned=1>",
    "<style>*{display:none!important}</style>",
    "<link rel=stylesheet href=\"data:text/css,*{display:none}\">",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=\"0;url=//evil.example\">",
    "<form action=//evil.example><button>x</button></form>",
    "<object data=\"data:text/html,<script>parent.pwned=1</script>\"></object>",
    "<embed src=\"data:text/html,x\">",
    "<template><img src=x onerror=window.pwned=1></template>",
    "<noscript><p title=\"</noscript><img src=x onerror=window.pwned=1>\">",
    "{{constructor.constructor('window.pwned=1')()}}",
    "${window.pwned=1} #{window.pwned=1} <%= 1 %> {% raw %}",
    "%3Cscript%3Ewindow.pwned=1%3C/script%3E",
    "&lt;script&gt;window.pwned=1&lt;/script&gt; &#60;img&#62;",
    "\\u003cscript\\u003ewindow.pwned=1\\u003c/script\\u003e",
    "pay\u{202e}0001\u{202c} \u{2066}x\u{2069} \u{200f}y",
    "ze\u{200b}ro\u{200c}wi\u{200d}dth\u{feff}\u{ad}\u{2060}",
    "bell\u{7} esc\u{1b}[31m del\u{7f} back\u{8} c1\u{9b}",
    "line\u{2028}sep\u{2029}par\r\nfeed\u{b}tab\t.",
    "1e400",
    "-9007199254740993.000000000000000000001",
    "9999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
    "\u{1f3f4}\u{200d}\u{2620}\u{fe0f} z\u{310}\u{31a}\u{35b}\u{489}a\u{300}\u{301}\u{302}",
    "../../../../etc/passwd?a=b&c=d#e;f=%00",
    "<!-- <![CDATA[ ]]> <?xml version=\"1.0\"?> <!doctype html>",
];

/// Every text in every place.
pub(super) fn corpus() -> Vec<String> {
    let long = [
        "wide".repeat(120),
        "long ".repeat(100),
        "\u{5d0}\u{5d1}\u{5d2}".repeat(80),
    ];
    let texts = TEXTS.iter().map(|text| (*text).to_owned()).chain(long);
    let texts: Vec<String> = texts.collect();
    let each = BREAKOUTS.iter().enumerate();
    each.flat_map(|(place, end)| {
        texts
            .iter()
            .enumerate()
            .map(move |(number, text)| format!("{end}{text} {place}-{number}"))
    })
    .collect()
}
