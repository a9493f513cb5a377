"""`report.html` in a real browser, without a network: what readers do with it."""

import json
import shutil

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, expect, sync_playwright

from attn_jax.drawing.viewer import write_viewer
from attn_jax.evaluation.metrics import error_rate
from attn_jax.pairs import Weighed
from attn_jax.reporting.report import report
from tests.reporting.test_report import write_run
from tests.stages import full

pytestmark = full

NAMES = "chromium", "chromium-browser", "google-chrome", "chrome"
HOSTILE = "<b>bold</b></script>"
ARABIC = ["القطة", "تجلس", "على", "الحصيرة", "الجديدة"]
COUNT = 24
PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser():
    path = next(filter(None, map(shutil.which, NAMES)), None)
    with sync_playwright() as playwright:
        try:  # without a sandbox, which a container cannot have
            started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        except Error as error:
            pytest.skip(f"no browser, neither {', '.join(NAMES)} nor Playwright's: {error}"[:200])
        yield started
        started.close()


def sentence(number):
    """A sentence whose target is its source in capitals, from the end."""
    source = [f"w{number}", "a", "b", "c", "d", "e"][: 5 + number % 2]
    source = {0: [HOSTILE, "a", "b", "c", "d"], 1: ARABIC}.get(number, source)
    target = [token.upper() for token in reversed(source)]
    gold = list(reversed(range(len(source))))
    return {"source": source, "target": target, "gold": gold}


def write_system(folder, score, seed, right, heads=1):
    """A run that writes the first sentences right, and of others leaves out the first token."""
    write_run(folder, score, seed, 100 * right / COUNT, **{"model.heads": heads})
    generator = np.random.default_rng(seed + len(score))
    lines, weights, pictures = [], [], {}
    for number in range(COUNT):
        one = sentence(number)
        said = one["target"] if number < right else ["X", *one["target"][2:]]
        texts = {"source_text": one["source"], "reference": one["target"], "text": said}
        one |= {name: " ".join(tokens) for name, tokens in texts.items()}
        one |= {"hypothesis": said, "text_tokens": said, "log_probability": -0.5 * number}
        lines.append(json.dumps(one))
        shape = 1, heads, len(said) + 1
        weights.append(generator.dirichlet(np.full(len(one["source"]), 0.4), shape))
        if score == "additive":
            width = len(one["source"])
            shape = 1, heads, len(one["target"]) + 1
            pictures[f"reference_{number}"] = generator.dirichlet(np.full(width, 0.4), shape)
            pictures[f"sizes_{number}"] = generator.uniform(0.2, 3, (1, heads, 1, width))
            pictures[f"encoder_{number}"] = generator.dirichlet(np.ones(width), (2, 1, width))
            steps = len(said) + 1
            pictures[f"decoder_{number}"] = np.tri(steps) * generator.random((2, 3, steps, steps))
    (folder / "predictions.test.jsonl").write_text("\n".join(lines), "utf-8")
    np.savez(folder / "alignments.test.npz", *weights, **pictures)
    file = folder / "evaluation.test.json"
    evaluation = json.loads(file.read_text())
    file.write_text(json.dumps(evaluation | {"sentences": COUNT}))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    write_system(root / "a", "additive", 0, 22, heads=2)
    write_system(root / "b", "additive", 1, 20, heads=2)
    write_system(root / "c", "dot", 0, 12)
    write_system(root / "d", "last", 0, 3)
    return root


def with_error_rates(root, copy, few=COUNT):
    """A copy of these runs, of some of the sentences, with error rates as evaluations measure."""
    shutil.copytree(root, copy)
    for file in copy.glob("*/evaluation.test.json"):
        predictions = file.with_name("predictions.test.jsonl")
        lines = predictions.read_text("utf-8").splitlines()[:few]
        predictions.write_text("\n".join(lines), "utf-8")
        weights = file.with_name("alignments.test.npz")
        with np.load(weights) as arrays:
            kept = {name: arrays[name] for name in arrays if int(name.rpartition("_")[2]) < few}
        np.savez(weights, **kept)
        said, wanted = (
            [json.loads(one)[name] for one in lines] for name in ("text_tokens", "target")
        )
        evaluation = json.loads(file.read_text()) | {"sentences": few}
        evaluation["metrics"]["symbol_error_rate"] = error_rate(said, wanted)
        file.write_text(json.dumps(evaluation))
    return copy


@pytest.fixture(scope="module")
def file(root):
    return report(root).html


@pytest.fixture
def visit(browser):
    """Opens a file as a reader does; no error may come of it, and nothing be fetched."""
    contexts, faults = [], []

    def open_page(file, **options):
        context = browser.new_context(viewport={"width": 1280, "height": 900}, **options)
        context.set_offline(True)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: faults.append(message.text))
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("request", lambda one: one.url == file.as_uri() or faults.append(one.url))
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready] .panel .token")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not faults


@pytest.fixture
def page(visit, file):
    return visit(file)


def column(page, title, table=0):
    """The cells of a column of a table."""
    element = page.locator(".table").nth(table)
    headings = element.locator("thead th").all_inner_texts()
    nth = [heading.strip() for heading in headings].index(title)
    rows = element.locator("tbody tr").all()
    return [row.locator("th, td").nth(nth).inner_text() for row in rows]


def panel(page, name="A"):
    """The panel of a system, when it shows what was chosen last."""
    expect(page.locator("[aria-busy=true]")).to_have_count(0)
    return page.get_by_role("region", name=f"System {name}")


def tokens(page, side, name="A"):
    return panel(page, name).locator(f".{side} .token")


def numbers(page, side, name="A"):
    """The numbers at the tokens of one side; 0 where there is none."""
    told = tokens(page, side, name).locator(".number").all_inner_texts()
    return [float(text.replace("−", "-")) if text else 0.0 for text in told]  # noqa: RUF001


def choose(page, number):
    """Chooses a sentence by its number in the test set."""
    page.locator(".sentences button", has=page.get_by_text(str(number), exact=True)).first.click()
    page.wait_for_function(
        "n => document.querySelector('[aria-current=true] .nth').textContent == n", arg=str(number)
    )


def weights_of(root, run, number):
    return np.load(root / run / "alignments.test.npz")[f"arr_{number - 1}"]


def test_tables_are_sorted_by_their_headings(page):
    assert column(page, "system") == ["additive, heads=2", "dot", "last"]
    heading = page.locator(".table").first.get_by_role("button", name="ppl")
    heading.click()
    assert column(page, "ppl") == ["187.50", "150.00", "112.50 ± 5.89"]
    assert column(page, "system")[0] == "last"
    heading.press("Enter")
    assert column(page, "system") == ["additive, heads=2", "dot", "last"]
    assert page.locator("[aria-sort=ascending]").inner_text() == "ppl"
    # What has no figure is last in either order.
    interval = page.locator(".table").first.get_by_role("button", name="95 % of exact %")
    for _ in range(2):
        interval.click()
        assert column(page, "95 % of exact %")[1:] == ["–", "–"]  # noqa: RUF001


def test_a_click_on_a_system_compares_all_others_with_it(page):
    assert column(page, "Δ exact %") == ["–", "−41.67", "−79.17"]  # noqa: RUF001
    page.locator(".table").first.get_by_role("button", name="dot", exact=True).click()
    assert column(page, "Δ exact %") == ["+41.67", "–", "−37.50"]  # noqa: RUF001
    low, high = (float(s.replace("−", "-")) for s in column(page, "95 % of Δ")[0].split(" to "))  # noqa: RUF001
    assert 0 < low < 41.67 < high
    p = [float(text.strip("<* ")) for text in column(page, "p")[::2]]
    adjusted = [float(text.strip("<* ")) for text in column(page, "p Holm")[::2]]
    assert min(adjusted) == pytest.approx(2 * min(p), abs=0.002)
    assert page.locator("tr.baseline").inner_text().startswith("dot")
    assert page.get_by_text("Δ is the difference from dot").is_visible()
    page.locator("tbody tr", has_text="last").first.locator("td").first.click()
    assert page.locator("tr.baseline").inner_text().startswith("last")


def test_a_baseline_is_asked_for_by_name(visit, root, tmp_path):
    folder = shutil.copytree(root, tmp_path / "copy")
    page = visit(report(folder, baseline="last").html)
    assert column(page, "Δ exact %")[-1] == "–"  # noqa: RUF001


def test_sentences_are_searched_and_sorted(page):
    numbers = page.locator(".sentences .nth")
    assert numbers.count() == COUNT
    search = page.get_by_label("Search the sentences")
    search.fill("القطة")
    assert numbers.all_inner_texts() == ["2"]
    search.fill("nothing has this")
    assert page.get_by_text("no sentence has this").is_visible()
    search.fill("")
    sorting = page.get_by_label("Sort by")
    sorting.select_option("confidence")
    page.wait_for_selector(".sentences .value")
    assert numbers.first.inner_text() == "23"  # -11 / 5 nats; of the last, it is -11.5 / 6
    values = page.locator(".sentences .value").all_inner_texts()
    assert values == sorted(values, key=lambda text: float(text.replace("−", "-")))  # noqa: RUF001
    sorting.select_option("error")
    page.wait_for_function("document.querySelector('.sentences .value').textContent.includes('%')")
    assert {*numbers.all_inner_texts()[:2]} == {"23", "24"}  # which the first run writes wrong


def test_systems_disagree_where_their_weights_of_the_same_tokens_do(page, root):
    page.get_by_label("Sort by").select_option("disagreement")
    page.wait_for_selector(".sentences .value")
    first, second = (weights_of(root, run, 1).mean(axis=(0, 1)) for run in "ac")
    apart = 50 * np.abs(first[:5] - second[:5]).sum(axis=1).mean()  # both write it right
    told = page.locator(".sentences li", has_text=HOSTILE).locator(".value").inner_text()
    assert float(told.rstrip("\xa0%")) == pytest.approx(apart, abs=1)


def test_text_of_data_is_shown_as_it_is(page):
    choose(page, 1)
    assert page.locator(".texts dd").first.inner_text() == f"{HOSTILE} a b c d"
    assert page.locator("main b").count() == 0
    assert tokens(page, "source").first.inner_text() == HOSTILE


def test_pointing_at_a_token_shows_what_it_looks_at_and_what_looks_at_it(page, root):
    choose(page, 7)
    weights = weights_of(root, "a", 7).mean(axis=(0, 1))
    for view in ("l", "m", "b"):
        page.keyboard.press(view)
        tokens(page, "target").nth(1).hover()
        np.testing.assert_allclose(numbers(page, "source"), weights[1], atol=0.0095)
        tokens(page, "source").nth(2).hover()
        np.testing.assert_allclose(numbers(page, "target"), weights[:, 2], atol=0.0095)
        assert numbers(page, "source") == [0] * weights.shape[1]
        colours = [
            tokens(page, "target").nth(n).evaluate("one => one.style.backgroundColor")
            for n in weights[:, 2].argsort()
        ]
        red = [int(one[4:].split()[0].rstrip(",")) for one in colours if one]
        assert red == sorted(red, reverse=True)  # the larger the darker
        page.mouse.move(2, 2)
        assert numbers(page, "target") == [0] * weights.shape[0]


def test_a_cell_of_the_matrix_is_told(page, root):
    choose(page, 7)
    page.keyboard.press("m")
    cells = panel(page).locator(".cells")
    box = cells.bounding_box()
    weights = weights_of(root, "a", 7).mean(axis=(0, 1))
    steps, width = weights.shape
    page.mouse.move(
        box["x"] + box["width"] * (2.5 / width), box["y"] + box["height"] * (1.5 / steps)
    )
    told = panel(page).locator(".readout").inner_text()
    assert told.endswith(f" {weights[1, 2]:.2f}")
    pixels = cells.locator("canvas").evaluate(
        "one => [...one.getContext('2d').getImageData(0, 0, one.width, one.height).data]"
    )
    red = np.array(pixels).reshape(steps, width, 4)[..., 0]
    assert (np.diff(red.ravel()[weights.ravel().argsort()]) <= 1).all()  # the larger the darker


def test_a_click_pins_a_token_until_the_next(page):
    choose(page, 7)
    target = tokens(page, "target")
    target.nth(1).click()
    page.mouse.move(2, 2)
    before = numbers(page, "source")
    assert sum(before) > 0.9
    assert "pinned" in target.nth(1).get_attribute("class")
    target.nth(2).hover()
    assert numbers(page, "source") != before  # pointing goes before pinning
    page.mouse.move(2, 2)
    assert numbers(page, "source") == before
    target.nth(1).click()
    page.mouse.move(2, 2)
    assert sum(numbers(page, "source")) == 0


def test_one_or_two_systems_and_any_head(page, root):
    choose(page, 7)
    assert panel(page).get_by_label("Layer and head").locator("option").all_inner_texts() == [
        "mean over all",
        "layer 1, head 1",
        "layer 1, head 2",
    ]
    panel(page).get_by_label("Layer and head").select_option("layer 1, head 2")
    page.wait_for_timeout(50)
    tokens(page, "target").first.hover()
    head = weights_of(root, "a", 7)[0, 1, 0]
    np.testing.assert_allclose(numbers(page, "source"), head, atol=0.0095)
    panel(page, "B").get_by_label("System B", exact=True).select_option("last")
    expect(tokens(page, "target", "B")).to_have_count(5)  # it leaves out one of five
    tokens(page, "target", "B").first.hover()
    weights = weights_of(root, "d", 7)[0, 0, 0]
    np.testing.assert_allclose(numbers(page, "source", "B"), weights, atol=0.0095)
    panel(page, "B").get_by_label("System B", exact=True).select_option("none")
    assert tokens(page, "target", "B").first.is_hidden()


def test_a_small_matrix_of_each_head_chooses_it(page):
    panel(page).get_by_text("All layers and heads").click()
    buttons = panel(page).locator(".thumbnails button")
    expect(buttons).to_have_count(2)
    sizes = buttons.locator("canvas").evaluate_all("all => all.map(one => [one.width, one.height])")
    source, target = (tokens(page, side).count() for side in ("source", "target"))
    assert sizes == [[source, target]] * 2
    buttons.last.click()
    expect(buttons.last).to_have_attribute("aria-pressed", "true")
    assert panel(page).get_by_label("Layer and head").input_value() == "0.1"


def test_errors_and_gold_links_are_marked(page):
    choose(page, 7)
    target = tokens(page, "target", "B")
    panel(page, "B").get_by_label("System B", exact=True).select_option("last")
    expect(target.nth(0)).to_have_class("token wrong")
    assert "wrong" not in target.nth(1).get_attribute("class")
    assert "missing-before" in target.nth(1).get_attribute("class")
    target.nth(0).hover()
    assert panel(page, "B").locator(".readout").inner_text().endswith("The reference has D")
    target.nth(1).hover()
    assert panel(page, "B").locator(".readout").inner_text().endswith("Before it is missing C")
    page.keyboard.press("m")
    # It writes X for the first of five tokens, and leaves out the second.
    assert panel(page, "B").locator(".link").count() == 3
    assert panel(page, "A").locator(".link").count() == 5
    tokens(page, "target").nth(0).hover()
    assert "gold" in tokens(page, "source").nth(4).get_attribute("class")


def test_everything_can_be_done_by_keys(page):
    def current():
        return page.locator("[aria-current=true] .nth").inner_text()

    order = page.locator(".sentences .nth").all_inner_texts()
    assert current() == order[0]
    page.keyboard.press("n")
    assert current() == order[1]
    page.keyboard.press("p")
    assert current() == order[0]
    for key, view in (("m", ".grid"), ("b", ".grid.bars"), ("l", ".lines")):
        page.keyboard.press(key)
        page.wait_for_selector(f".panel {view}")
    page.keyboard.press("/")
    page.keyboard.type("w7n")  # in a field, letters are letters
    assert page.get_by_label("Search the sentences").input_value() == "w7n"
    page.get_by_label("Search the sentences").fill("")
    assert current() == order[0]
    panel(page).locator(".drawing").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert "active" in tokens(page, "target").nth(1).get_attribute("class")
    page.keyboard.press("Enter")
    assert "pinned" in tokens(page, "target").nth(1).get_attribute("class")
    page.keyboard.press("ArrowLeft")
    active = panel(page).locator(".source .active")
    assert active.count() == 1
    page.keyboard.press("Escape")
    assert panel(page).locator(".active, .pinned").count() == 0
    before = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before


def brightness(page):
    """Of the darkest and the brightest pixel of the matrix, from 0 to 255."""
    pixels = (
        panel(page)
        .locator("canvas")
        .evaluate("one => [...one.getContext('2d').getImageData(0, 0, one.width, one.height).data]")
    )
    means = np.array(pixels).reshape(-1, 4)[:, :3].mean(axis=1)
    return means.min(), means.max()


def test_light_dark_and_paper(page):
    page.keyboard.press("m")
    paper = brightness(page)
    assert paper[1] > 240
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(100)
    assert brightness(page)[0] < 40
    page.get_by_role("button", name="Light / dark").click()
    page.wait_for_timeout(100)
    assert brightness(page) == paper
    page.get_by_role("button", name="Light / dark").click()
    page.emulate_media(color_scheme="dark", media="print")
    page.wait_for_timeout(100)
    assert brightness(page) == paper
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("aside").is_hidden()
    assert tokens(page, "source").first.is_visible()


def test_scores_stand_in_rows_at_a_line_through_the_baseline(page):
    rows = page.locator(".forest").get_by_role("listitem")
    names = ["additive, heads=2", "dot", "last"]
    assert rows.get_by_role("button").all_inner_texts() == names
    assert rows.locator(".value").all_inner_texts() == [
        "87.5 (34.6 to 100.0)",
        "50.0 (29.2 to 70.8)",
        "12.5 (0.0 to 25.0)",
    ]
    told = [one.get_attribute("aria-label") for one in rows.get_by_role("img").all()]
    assert told == ["seeds: 91.7, 83.3", "a single run", "a single run"]

    def middles(mark):
        return [
            box["x"] + box["width"] / 2
            for box in (one.bounding_box() for one in page.locator(f".forest {mark}").all())
        ]

    for width in (1280, PHONE["width"]):
        page.set_viewport_size({"width": width, "height": 844})
        means, ticks, seeds = middles(".mean"), middles(".axis span"), middles(".seed")
        values = list(map(float, page.locator(".forest .axis span").all_inner_texts()))
        slope, start = np.polyfit(values, ticks, 1)
        wanted = start + slope * np.array([87.5, 50, 12.5, 91.667, 83.333])
        np.testing.assert_allclose([*means, *seeds], wanted, atol=1)
        box = page.locator(".forest .interval").nth(1).bounding_box()
        ends = (np.array([box["x"], box["x"] + box["width"]]) - start) / slope
        np.testing.assert_allclose(ends, [29.2, 70.8], atol=0.5)
    rows.filter(has_text="dot").get_by_role("button").press("Enter")
    assert page.locator("tr.baseline th").inner_text() == "dot"
    assert rows.get_by_role("button", pressed=True).inner_text() == "dot"
    assert page.get_by_text("The vertical line is at the mean of dot.").is_visible()
    line = page.locator(".forest .plot").first.evaluate(
        "one => one.getBoundingClientRect().x + parseFloat(getComputedStyle(one, '::before').left)"
    )
    assert line == pytest.approx(means[1], abs=1)


@pytest.mark.parametrize("view", ["l", "m", "b"])
def test_a_phone_shows_all_without_scrolling_aside(page, view):
    page.set_viewport_size(PHONE)
    page.keyboard.press(view)
    page.wait_for_timeout(100)
    assert page.evaluate("document.scrollingElement.scrollWidth") <= PHONE["width"]
    tokens(page, "target").first.click()
    assert sum(numbers(page, "source")) > 0.9


def test_a_source_from_right_to_left_has_its_first_token_at_the_right(page, root):
    choose(page, 2)
    page.keyboard.press("m")
    places = [tokens(page, "source").nth(n).bounding_box()["x"] for n in range(len(ARABIC))]
    assert places == sorted(places, reverse=True)
    box = panel(page).locator(".cells").bounding_box()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + 4)
    weights = weights_of(root, "a", 2).mean(axis=(0, 1))
    assert panel(page).locator(".readout").inner_text().endswith(f"{ARABIC[0]} {weights[0, 0]:.2f}")


def test_curves_are_zoomed_and_systems_hidden(page):
    legend = page.get_by_label("Systems", exact=True)
    over = page.locator(".u-over")
    over.hover()
    assert all(legend.locator(".value").all_inner_texts())
    legend.get_by_role("button", name="dot").click()
    over.hover()
    additive, dot, last = legend.locator(".value").all_inner_texts()
    assert not dot
    assert additive
    assert last
    page.mouse.move(2, 2)
    before = page.locator(".chart canvas").screenshot()
    box = over.bounding_box()
    page.mouse.move(box["x"] + 50, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + 250, box["y"] + 30)
    page.mouse.up()
    page.mouse.move(2, 2)
    page.wait_for_timeout(100)
    zoomed = page.locator(".chart canvas").screenshot()
    assert zoomed != before
    page.get_by_role("button", name="Reset zoom").click()
    page.mouse.move(2, 2)
    page.wait_for_timeout(100)
    assert page.locator(".chart canvas").screenshot() == before
    for nth in range(page.get_by_label("Show").locator("option").count()):
        page.get_by_label("Show").select_option(index=nth)
        assert page.locator(".chart canvas").is_visible()
    page.get_by_role("button", name="None", exact=True).click()
    assert page.locator(".chart canvas").count() == 0
    page.get_by_role("button", name="All", exact=True).click()
    assert page.locator(".chart canvas").is_visible()


def long_page(folder, length):
    """A page of one sentence with as many tokens on each side."""
    generator = np.random.default_rng(0)
    weights = generator.dirichlet(np.full(length, 0.05), (1, 1, length))
    source, target = ([f"{side}{n}" for n in range(length)] for side in "st")
    pair = Weighed(source, target, weights)
    write_viewer(folder / "long.html", [(" ".join(source), " ".join(target))], {"": [pair]})
    return folder / "long.html"


@pytest.mark.parametrize("view", ["l", "m", "b"])
def test_pointing_at_a_token_of_200_takes_no_time(visit, tmp_path, view):
    page = visit(long_page(tmp_path, 200))
    page.keyboard.press(view)
    page.wait_for_timeout(300)
    times = page.evaluate(
        """async () => {
          const times = [];
          const labels = document.querySelectorAll('.target .token');
          for (let nth = 0; nth < 40; nth += 1) {
            await new Promise(requestAnimationFrame);
            const start = performance.now();
            labels[3 * nth].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}));
            document.body.offsetHeight; // style and layout are a part of it
            times.push(performance.now() - start);
          }
          return times;
        }"""
    )
    print(f"{view}: median {np.median(times):.1f} ms, largest {max(times):.1f} ms")
    assert np.median(times) < 50
    assert sum(numbers(page, "source")) > 0.9


def test_tokens_stay_where_they_are_under_the_pointer(page):
    """However much is told of them, on a phone as well."""
    page.set_viewport_size(PHONE)
    for name in ("A", "B"):
        target = tokens(page, "target", name)
        places = set()
        for nth in range(target.count()):
            target.nth(nth).dispatch_event("pointerover")
            places.add(target.first.evaluate("one => one.getBoundingClientRect().top + scrollY"))
        assert len(places) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(visit, file, scheme):
    page = visit(file, color_scheme=scheme)
    for view in ("l", "m"):
        page.keyboard.press(view)
        page.wait_for_timeout(100)
        page.mouse.move(2, 2)
        found = Axe().run(page).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        told = [(one["id"], [node["html"][:120] for node in one["nodes"]][:3]) for one in serious]
        assert not told


def test_texts_without_references_are_a_page_of_their_own(visit, tmp_path):
    pair = Weighed(["a", "b"], ["B", "A"], np.array([[[[0.25, 0.75], [1, 0]]]]), {(1, 0), (0, 1)})
    other = pair._replace(weights=pair.weights[:, :, ::-1])
    texts, systems = [("a b", "B A"), ("a b", "B A")], {"one": [pair] * 2, "other": [other, pair]}
    write_viewer(tmp_path / "a.html", texts, systems)
    page = visit(tmp_path / "a.html")
    assert page.locator(".texts").inner_text().split() == ["source", "a", "b", "target", "B", "A"]
    assert page.locator("table").count() == 0
    tokens(page, "target").first.hover()
    assert numbers(page, "source") == [0.25, 0.75]
    assert "gold" in tokens(page, "source").nth(1).get_attribute("class")
    page.get_by_label("Sort by").select_option("disagreement of A and B")
    page.wait_for_selector(".sentences .value")
    # Of both steps, 0.75 of the weight is elsewhere.
    assert page.locator(".sentences .value").all_inner_texts() == ["75\xa0%", "0\xa0%"]


def test_numbers_of_weights_beyond_one_keep_all_their_digits(visit, tmp_path):
    pair = Weighed(["a", "b"], ["B"], np.array([[[[10.25, -0.5]]]]))
    write_viewer(tmp_path / "a.html", [("a b", "B")], {"one": [pair]})
    page = visit(tmp_path / "a.html")
    tokens(page, "target").first.hover()
    np.testing.assert_allclose(numbers(page, "source"), [10.25, -0.5], atol=0.05)


def test_few_sentences_have_no_stars_of_significance(visit, root, tmp_path):
    """By symbol error rate, since exact match is tested for any number."""
    page = visit(report(with_error_rates(root, tmp_path / "runs", few=12)).html)
    page.get_by_label("Compare by").select_option("symbol err. %")
    assert column(page, "p Holm") == ["", "–", "–"]  # noqa: RUF001


def test_a_page_of_runs_in_training_loads_itself_anew(visit, root, tmp_path, monkeypatch):
    shutil.copytree(root, tmp_path / "runs")
    monkeypatch.setattr("attn_jax.reporting.report_html.RELOADED", 8)
    page = visit(report(tmp_path / "runs", live="4 runs are evaluated, 1 in training (dot)").html)
    assert "1 in training (dot). This page loads itself anew." in page.locator(".live").inner_text()
    report(tmp_path / "runs")  # which stays
    expect(page.locator(".live")).to_have_count(0, timeout=60_000)
    page.wait_for_selector("html[data-ready] .panel .token")


def test_what_was_chosen_survives_a_reload(page):
    page.get_by_role("button", name="dot", exact=True).first.click()
    page.get_by_role("button", name="Matrix").click()
    page.get_by_role("combobox", name="System A").select_option("dot")
    page.get_by_label("Sort by").select_option("entropy")
    page.get_by_label("Search the sentences").fill("w")
    page.get_by_label("Show").select_option(index=1)
    page.get_by_role("button", name="Light / dark").click()
    choose(page, 9)
    tokens(page, "target").nth(1).click()
    readout = panel(page).locator(".readout").inner_text()
    theme = page.evaluate("document.documentElement.dataset.theme")
    page.reload()
    page.wait_for_selector("html[data-ready] .panel .token")
    expect(panel(page).locator(".readout")).to_have_text(readout)
    assert page.locator("tr.baseline th").inner_text() == "dot"
    assert page.get_by_role("combobox", name="System A").input_value() == "dot"
    assert page.get_by_label("Sort by").input_value() == "entropy"
    assert page.get_by_label("Search the sentences").input_value() == "w"
    assert "perplexity" in page.get_by_label("Show").input_value()
    assert page.get_by_role("button", name="Matrix").get_attribute("aria-pressed") == "true"
    assert page.locator("[aria-current=true] .nth").inner_text() == "9"
    assert page.evaluate("document.documentElement.dataset.theme") == theme


def test_an_address_is_a_link_to_a_sentence_under_systems(page, file):
    choose(page, 5)
    page.keyboard.press("m")
    panel(page).get_by_label("System A", exact=True).select_option("last")
    page.wait_for_function("location.hash.includes('system=last')")
    address = page.evaluate("location.hash")
    other = page.context.new_page()
    other.goto(file.as_uri() + address)
    other.wait_for_selector("html[data-ready] .panel .token")
    assert other.locator("[aria-current=true] .nth").inner_text() == "5"
    assert panel(other).get_by_label("System A", exact=True).input_value() == "last"
    assert other.get_by_role("button", name="Matrix").get_attribute("aria-pressed") == "true"


def test_a_choice_of_what_is_gone_is_forgotten(page):
    gone = {
        "set": "x",
        "parts": {
            "Tables": {"baseline": "x"},
            "Curves": {"chart": "x", "axis": 9, "hidden": ["x"]},
            "Viewer": {
                "split": "x",
                "order": "x",
                "systems": ["x", "x"],
                "number": 999,
                "panels": [
                    {
                        "head": "7.7",
                        "attention": "source",
                        "pinned": {"side": "target", "index": 99},
                    }
                ],
            },
        },
    }
    page.evaluate("state => history.replaceState(state, '')", gone)
    page.reload()
    page.wait_for_selector("html[data-ready] .panel .token")
    assert page.get_by_role("combobox", name="System A").input_value() == "additive, heads=2"
    assert page.get_by_role("combobox", name="System B").input_value() == "dot"
    assert panel(page).locator(".readout").inner_text() == ""
    assert page.get_by_label("Layer and head").first.input_value() == "mean"


def arrays_of(root, run, number):
    """What is known of a sentence: weights, those of its reference, and the sizes of values."""
    arrays = np.load(root / run / "alignments.test.npz")
    return [arrays[f"{name}_{number - 1}"] for name in ("arr", "reference", "sizes")]


def test_the_reference_stands_beside_what_was_written(page, root):
    page.get_by_role("combobox", name="System B").select_option("additive, heads=2")
    right = panel(page, "B")
    right.get_by_label("Target").select_option("reference")
    choose(page, 23)  # of which the first token was left out
    assert tokens(page, "target").all_inner_texts() == ["X", "B", "A", "W22", "</s>"]
    wanted = ["D", "C", "B", "A", "W22", "</s>"]
    assert tokens(page, "target", "B").all_inner_texts() == wanted
    assert not right.locator(".wrong").count()
    _, reference, _ = arrays_of(root, "a", 23)
    tokens(page, "target", "B").nth(0).hover()
    expected = reference.mean(axis=(0, 1))[0]
    assert numbers(page, "source", "B") == pytest.approx(expected, abs=0.011)
    golden = right.locator(".source .token.gold").all_inner_texts()
    assert [text.split("\n")[0] for text in golden] == ["d"]
    right.get_by_label("Layer and head").select_option("layer 1, head 2")
    tokens(page, "target", "B").nth(2).hover()
    assert numbers(page, "source", "B") == pytest.approx(reference[0, 1, 2], abs=0.011)
    page.get_by_role("combobox", name="System B").select_option(
        "dot"
    )  # of which no reference is known
    assert right.get_by_label("Target").is_hidden()
    assert tokens(page, "target", "B").all_inner_texts()[0] == "X"


def test_words_attend_to_each_other(page, root, file):
    choose(page, 23)
    panel(page).get_by_label("Target").select_option("the reference")
    attention = panel(page).get_by_label("Attention")
    arrays = np.load(root / "a" / "alignments.test.npz")
    attention.select_option("encoder self-attention")
    assert panel(page).get_by_label("Quantity").is_hidden()
    assert panel(page).get_by_label("Target").is_hidden()
    source = ["w22", "a", "b", "c", "d"]
    assert tokens(page, "source").all_inner_texts() == source
    assert tokens(page, "target").all_inner_texts() == source
    tokens(page, "target").nth(3).hover()
    expected = arrays["encoder_22"].mean(axis=(0, 1))[3]
    assert numbers(page, "source") == pytest.approx(expected, abs=0.011)
    page.mouse.move(2, 2)
    attention.select_option("decoder self-attention")
    assert panel(page).locator(".wrote").inner_text().startswith("the system wrote")
    said = ["X", "B", "A", "W22", "</s>"]
    assert tokens(page, "target").all_inner_texts() == said
    assert tokens(page, "source").all_inner_texts() == ["<s>", *said[:-1]]
    panel(page).get_by_label("Layer and head").select_option("layer 2, head 3")
    tokens(page, "target").nth(2).hover()
    assert numbers(page, "source") == pytest.approx(arrays["decoder_22"][1, 2, 2], abs=0.011)
    page.keyboard.press("m")
    assert panel(page).locator(".corner").inner_text().split("\n") == ["writes ↓", "has read →"]
    page.wait_for_function("location.hash.includes('attention=decoder&attention=cross')")
    other = page.context.new_page()
    other.goto(file.as_uri() + page.evaluate("location.hash"))
    other.wait_for_selector("html[data-ready] .panel .token")
    assert panel(other).get_by_label("Attention").input_value() == "decoder"
    panel(page).get_by_label("System A", exact=True).select_option("dot")  # it has none
    assert attention.is_hidden()
    assert tokens(page, "source").all_inner_texts() == source


def test_weights_times_the_sizes_of_values(page, root):
    panel(page).get_by_label("Quantity").select_option("weights × size of values")  # noqa: RUF001
    choose(page, 7)
    weights, _, sizes = arrays_of(root, "a", 7)
    products = weights * sizes
    shares = 2 * products / products.sum(axis=(1, 3), keepdims=True)  # of two heads
    tokens(page, "target").nth(1).hover()
    assert numbers(page, "source") == pytest.approx(shares.mean(axis=(0, 1))[1], abs=0.011)
    assert sum(shares.mean(axis=(0, 1))[1]) == pytest.approx(1)
    panel(page).get_by_label("Layer and head").select_option("layer 1, head 2")
    tokens(page, "target").nth(2).hover()
    assert numbers(page, "source") == pytest.approx(shares[0, 1, 2], abs=0.025)
    page.get_by_role("combobox", name="System A").select_option("dot")
    assert panel(page).get_by_label("Quantity").is_hidden()


def test_sentences_by_their_gold_links(page, root):
    page.get_by_label("Sort by").select_option("gold links missed on the reference of A")
    values = page.locator(".sentences .value").all_inner_texts()
    shares = [float(text.split()[0]) for text in values]
    assert shares == sorted(shares, reverse=True)
    number = int(page.locator(".sentences .nth").first.inner_text())
    _, reference, _ = arrays_of(root, "a", number)
    gold = sentence(number - 1)["gold"]
    missed = np.mean(reference.mean(axis=(0, 1))[:-1].argmax(axis=1) != gold)
    assert shares[0] == pytest.approx(100 * missed, abs=0.51)


def test_systems_are_compared_by_another_metric(visit, root, tmp_path):
    page = visit(report(with_error_rates(root, tmp_path / "runs")).html)
    by = page.get_by_label("Compare by")
    assert by.locator("option").all_inner_texts() == ["exact %", "symbol err. %"]
    by.select_option("symbol err. %")
    errors = [float(text.split()[0]) for text in column(page, "symbol err. %")]
    changes = column(page, "Δ symbol err. %")
    assert changes[0] == "–"  # noqa: RUF001
    changes = [float(text.replace("−", "-")) for text in changes[1:]]  # noqa: RUF001
    assert changes[1] - changes[0] == pytest.approx(errors[2] - errors[1], abs=0.02)
    page.locator("tr", has_text="dot").first.locator("th button").click()
    assert float(column(page, "Δ symbol err. %")[2]) == pytest.approx(
        errors[2] - errors[1], abs=0.01
    )
    assert "where lower is better" in page.locator(".tables > .notes").first.inner_text()


def errors(page):
    """The rows of the table of wrong sentences, as texts by heading."""
    table = page.locator("#errors .items table")
    names = [name.strip() for name in table.locator("thead th").all_inner_texts()]
    rows = table.locator("tbody tr").all()
    return [dict(zip(names, row.locator("th, td").all_inner_texts(), strict=True)) for row in rows]


def test_wrong_sentences_are_listed_searched_and_sorted(page):
    section = page.locator("#errors")
    assert [row["sentence"] for row in errors(page)] == ["23", "24"]
    assert errors(page)[0] == {
        "sentence": "23",
        "source": "w22 a b c d",
        "reference": "D C B A W22",
        "the system wrote": "X B A W22",
        "the other wrote": "X B A W22",
        "wrote → reference": "X → D C",
        "error %": "40.0",
        "log-prob. per token": "−2.200",  # noqa: RUF001
    }
    section.get_by_label("Errors of").select_option("last")
    section.get_by_label("Compared with").select_option("dot")
    rows = errors(page)
    assert len(rows) == COUNT - 3
    right = {row["sentence"]: row["the other wrote"] == "✓" for row in rows}
    assert right == {str(n): n <= 12 for n in range(4, COUNT + 1)}  # which dot writes right
    page.get_by_label("Search the errors").fill("W1")
    assert "10 of them have this" in section.locator(".notes").first.inner_text()
    assert len(errors(page)) == 10  # w10 to w19
    section.locator(".items").get_by_role("button", name="sentence").click()
    numbers = [int(row["sentence"]) for row in errors(page)]
    assert numbers == sorted(numbers)
    page.get_by_label("Search the errors").fill("✓")
    assert [row["sentence"] for row in errors(page)] == [str(n) for n in range(4, 13)]
    section.get_by_role("button", name="the system wrote").click()
    written = [row["the system wrote"] for row in errors(page)]
    assert written == sorted(written)
    page.reload()
    page.wait_for_selector("html[data-ready] .panel .token")
    assert len(errors(page)) == 9
    section.get_by_label("Compared with").select_option("none")
    assert not errors(page)  # without the sign that is searched


def test_a_wrong_sentence_opens_under_the_systems_that_are_compared(root, tmp_path, visit):
    """Weights are there of those that wrote it wrong; of the others, the text alone."""
    copy = shutil.copytree(root, tmp_path / "runs")
    for file in copy.glob("*/alignments.test.npz"):
        lines = file.with_name("predictions.test.jsonl").read_text("utf-8").splitlines()
        said = [json.loads(line) for line in lines]
        with np.load(file) as arrays:
            kept = {
                name: arrays[name]
                for name in arrays
                if (place := int(name.rpartition("_")[2])) < 3
                or said[place]["text_tokens"] != said[place]["target"]
            }
        np.savez(file, **kept)
    page = visit(report(copy, page_sentences=20).html)
    section = page.locator("#errors")
    section.get_by_label("Errors of").select_option("dot")
    section.get_by_label("Compared with").select_option("additive, heads=2")
    shown = {int(text) for text in page.locator(".sentences .nth").all_inner_texts()}
    offered = section.locator(".items tbody th button").all_inner_texts()
    assert shown >= {*map(int, offered)} == {*range(13, 25)} & shown
    assert len(shown) == 20
    section.locator(".items").get_by_role("button", name="20", exact=True).click()
    assert page.evaluate("location.hash").endswith(
        "sentence=20&system=dot&system=additive%2C+heads%3D2&view=lines"
    )
    first, second = page.locator(".panel").all()
    expect(first.locator(".token")).to_have_count(6 + 6)  # with the end of the sentence
    expect(second.locator(".drawing")).to_contain_text("its evaluation has not kept them")
    expect(second.locator(".wrote")).to_contain_text("W19")


def test_wrong_sentences_are_saved_as_a_file(page, tmp_path):
    page.get_by_label("Search the errors").fill("w22")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download as TSV").click()
    assert download.value.suggested_filename == "errors-reverse-test-additive-heads=2.tsv"
    download.value.save_as(tmp_path / "a.tsv")
    head, line = (tmp_path / "a.tsv").read_text("utf-8").splitlines()
    assert head.split("\t")[:3] == ["sentence", "source", "reference"]
    written = ["X B A W22"] * 2  # by both systems
    assert line.split("\t") == [
        *("23", "w22 a b c d", "D C B A W22"),
        *written,
        *("X → D C", "40.0", "-2.200"),
    ]


def test_quality_by_group_and_confusions(page):
    section = page.locator("#errors .beside table")
    assert page.get_by_role("heading", name="exact % by source length in tokens").is_visible()
    assert section.first.locator("tbody tr").first.inner_text().split() == [
        *("5", "13", "88.5", "±", "5.4", "53.8", "23.1")
    ]
    assert section.nth(1).locator("tbody tr").all_inner_texts()[0].split()[:3] == ["X", "D", "1"]
    page.locator("#errors").get_by_label("Errors of").select_option("last")
    counts = [int(row.split()[2]) for row in section.nth(1).locator("tbody tr").all_inner_texts()]
    assert counts == sorted(counts, reverse=True)


def test_a_panel_says_what_the_system_wrote(page):
    choose(page, 23)
    assert panel(page).locator(".wrote").inner_text().split("\n") == [
        "the system wrote",
        "X B A W22",
    ]
    panel(page).get_by_label("Target").select_option("the reference")
    assert panel(page).locator(".wrote").inner_text().split("\n") == [
        "the reference",
        "D C B A W22",
    ]
